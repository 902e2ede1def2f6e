"""How commands without a supervisor run their requests."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import warnings
from typing import TYPE_CHECKING

from kleader.cli.api_access import run

if TYPE_CHECKING:
    import pytest


async def never_awaited() -> None:
    """It takes for ever."""
    await asyncio.Event().wait()


def test_a_command_that_ends_while_a_request_begins_gives_no_python_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> None:
        asyncio.get_running_loop().create_task(never_awaited())
        sys.exit(3)

    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with contextlib.suppress(SystemExit):
            run(work())
        gc.collect()
    assert [str(each.message) for each in caught if each.category is RuntimeWarning] == []
