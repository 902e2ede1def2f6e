"""Whether the terminal's foreground is kleader's to give."""

from __future__ import annotations

import os

import pytest

from kleader import platform
from kleader.supervisor.terminal import Terminal


@pytest.mark.parametrize(("own", "ours"), [({7}, True), (set[int](), False)])
def test_a_process_of_its_own_that_has_not_left_the_group_yet_is_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
    own: set[int],
    ours: bool,  # noqa: FBT001 - a value of the table
) -> None:
    """An elector or a reporter is forked a moment before it has a session."""
    group = os.getpgrp()
    known = {pid: platform.Process(pid, 1, group, "R", 1, 0) for pid in (os.getpid(), 7)}
    monkeypatch.setattr(platform, "processes", lambda: known)
    monkeypatch.setattr(Terminal, "_foreground", lambda _self: group)
    mine = set[int]()
    terminal = Terminal(mine)
    mine |= own
    assert terminal.ours_to_give() is ours
