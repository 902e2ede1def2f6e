"""Whether the terminal's foreground is kleader's to give."""

from __future__ import annotations

import os

import pytest

from kleader import system
from kleader.procs.bystanders import Bystanders
from kleader.procs.tree_killer import ProcessTree
from kleader.supervisor.terminal import Terminal


@pytest.mark.parametrize(("own", "ours"), [({7}, True), (set[int](), False)])
def test_a_child_of_kleader_in_its_group_is_no_other_program(
    monkeypatch: pytest.MonkeyPatch,
    own: set[int],
    ours: bool,  # noqa: FBT001 - a value of the table
) -> None:
    """An elector or an exporter is forked a moment before it has a session."""
    group = os.getpgrp()
    known = {pid: system.Process(pid, 1, group, "R", 1, 0) for pid in (os.getpid(), 7)}
    monkeypatch.setattr(system, "processes", lambda: known)
    monkeypatch.setattr(Terminal, "_foreground", lambda _self: group)
    mine = set[int]()
    terminal = Terminal(mine)
    mine |= own
    assert terminal.can_be_given() is ours


def test_a_helper_that_was_there_before_kleader_keeps_the_terminal_at_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(system, "children", lambda own: [pid for pid in (7, 8) if pid not in own])
    monkeypatch.setattr(system, "process", lambda pid: system.Process(pid, 1, 1, "R", 1, 0))
    tree = ProcessTree(Bystanders({7: 0}))
    assert tree.children() == [8]
    assert tree.own_pids == set()
