"""Processes as /proc shows them: every descendant is found, and a reused pid is another process."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kleader.system import procfs
from tests.support.processes import alive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kleader.system import Process

FAMILY = """
import os, signal, sys, threading
def fork():
    if (pid := os.fork()) == 0:
        signal.pause()
    print(pid, flush=True)
fork()
thread = threading.Thread(target=lambda: (fork(), signal.pthread_sigmask(0, ()), threading.Event().wait()))
thread.start()
"""


@pytest.fixture
def family() -> Iterator[list[int]]:
    """A process, a child of its first thread, and one of its second."""
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        found = [parent.pid, int(parent.stdout.readline()), int(parent.stdout.readline())]
        yield found
        for pid in found[::-1]:
            if alive(pid):
                os.kill(pid, 9)


@pytest.mark.parametrize("lists", [True, False], ids=["its lists", "all of /proc"])
def test_a_descendant_is_found_whichever_thread_forked_it(
    family: list[int],
    monkeypatch: pytest.MonkeyPatch,
    lists: bool,  # noqa: FBT001
) -> None:
    """Also by a kernel without lists of children (CONFIG_PROC_CHILDREN)."""
    monkeypatch.setattr(procfs, "_LISTS_CHILDREN", lists)
    parent, *children = family
    found = [each.pid for each in procfs.below(os.getpid(), ())]
    assert found[0] == parent
    assert sorted(found[1:]) == sorted(children)
    assert list(procfs.below(os.getpid(), {parent})) == []
    assert [each.pid for each in procfs.below(parent, {children[0]})] == [children[1]]
    assert procfs.children(()) == [parent]
    assert procfs.children({parent}) == []


def test_a_process_that_is_gone_has_no_name_and_no_children(family: list[int]) -> None:
    gone = 1 << 30  # more than any pid
    assert procfs.name_of(family[0]) == Path(f"/proc/{family[0]}/comm").read_text().strip()
    assert procfs.name_of(gone) == "?"
    assert list(procfs.below(gone, ())) == []


def test_a_reused_pid_is_not_taken_for_the_earlier_process(family: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parent is not one of those that were met on the way: it is left out, and all that is below it."""
    parent, *children = family
    real = procfs.process

    def reused(pid: int) -> Process | None:
        found = real(pid)
        return found._replace(parent=1) if found and pid == parent else found

    monkeypatch.setattr(procfs, "process", reused)
    assert list(procfs.below(os.getpid(), ())) == []
    monkeypatch.undo()
    found = procfs.process(children[0])
    assert found
    assert not procfs.kill(found._replace(start=found.start - 1))
    assert alive(children[0])
    assert procfs.kill(found)


@pytest.mark.parametrize("what", ["children(())", "process(os.getpid())", "list(procfs.below(os.getpid(), ()))"])
def test_a_scan_without_descriptors_does_not_prove_a_tree_empty(what: str) -> None:
    code = (
        "import os, resource, sys; sys.path.insert(0, sys.argv[1]); from kleader.system import procfs\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        f"try: {what if 'list' in what else f'procfs.{what}'}\n"
        "except OSError as error: print(error.errno)\n"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, root], capture_output=True, check=True)
    assert done.stdout == b"%d\n" % errno.EMFILE


def test_a_python_without_pidfd_open_kills_by_pid(family: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """It was built against kernel headers from before 5.3."""
    monkeypatch.delattr(os, "pidfd_open")
    found = procfs.process(family[1])
    assert found
    assert not procfs.kill(found._replace(start=found.start - 1))
    assert procfs.kill(found)
