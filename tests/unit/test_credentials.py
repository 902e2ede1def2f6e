"""The process that reads a kubeconfig is gone when its answer is not wanted any more."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import pytest

from kleader.kube import credentials
from kleader.kube.credentials import Credentials
from kleader.kube.errors import SetUpError
from tests.support.processes import alive, wait_until

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def pid(tmp_path: Path) -> Path:
    """The file that tells the reader's."""
    return tmp_path / "pid"


@pytest.fixture
def slow(pid: Path) -> Credentials:
    """Whose reader takes ten minutes."""
    script = f"echo $$ >{pid}.new; mv {pid}.new {pid}; exec sleep 600"
    return Credentials({"kubeconfig": "/k"}, lambda _: ["/bin/sh", "-c", script])


def test_a_kubeconfig_reader_that_is_no_longer_needed_is_ended(slow: Credentials, pid: Path) -> None:
    """Neither a process nor an open pipe, of which Python would complain at some later time."""

    async def ask_and_leave() -> None:
        asked = asyncio.ensure_future(slow.refresh())
        await asyncio.to_thread(wait_until, pid.exists, "the reader")
        asked.cancel()

    asyncio.run(ask_and_leave())
    assert not alive(int(pid.read_text()))
    gc.collect()


def test_a_kubeconfig_reader_that_takes_too_long_is_ended(
    slow: Credentials, pid: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "_READER_TIMEOUT", 0.5)

    async def ask() -> None:
        with pytest.raises(SetUpError, match="took longer than 0s: its exec plugin may be waiting for a login"):
            await slow.refresh()

    asyncio.run(ask())
    assert not (pid.exists() and alive(int(pid.read_text())))
    gc.collect()
