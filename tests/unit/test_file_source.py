"""What an observer reads of lock files."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from kleader.kube.errors import LockError
from kleader.observe import file_source
from kleader.observe.file_source import FileSource

if TYPE_CHECKING:
    from pathlib import Path


def test_a_directory_that_no_candidate_has_made_yet_has_no_locks(tmp_path: Path) -> None:
    assert asyncio.run(FileSource(str(tmp_path / "none"), "").poll()) == {}


def test_a_lock_file_that_cannot_be_read_is_an_error_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A symbolic link is not followed: it may be another user's."""
    monkeypatch.setattr(file_source, "_POLL_SECONDS", 0)
    path = tmp_path / "x.lock"
    path.symlink_to("elsewhere")
    source = FileSource(str(path))
    reason = f"cannot read {path}: Too many levels of symbolic links"
    with pytest.raises(LockError, match=reason):
        asyncio.run(source.poll())

    async def follow() -> None:
        async with aclosing(source.follow()) as updates:
            assert str((await anext(updates)).error) == reason
            path.unlink()
            path.touch()
            found = await anext(updates)
            assert not found.error
            assert [key[2] for key in found.snapshots] == ["x"]

    asyncio.run(follow())
