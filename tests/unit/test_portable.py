"""Where there is no Linux: the portable platform does what POSIX can, and says what it cannot."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

from kleader import system
from kleader.system import portable
from tests.support.processes import wait_until

LINUX = {"kleader.system.linux", "kleader.system.procfs"}
NAMES = ["MISSING", *(name for name, value in vars(system).items() if getattr(value, "__module__", "") in LINUX)]


@pytest.mark.parametrize("name", NAMES)
def test_the_portable_platform_has_every_function_of_linux(name: str) -> None:
    assert hasattr(portable, name)


def test_the_portable_platform_reports_missing_guarantees() -> None:
    assert "does not die with kleader" in portable.MISSING
    assert system.MISSING == ""


def test_a_process_is_known_by_its_start() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        found = portable.process(child.pid)
        assert found is not None
        assert (found.parent, found.dead) == (os.getpid(), False)
        assert not portable.kill(found._replace(start=found.start - 1))
        assert [each.pid for each in portable.below(os.getpid(), ())] == [child.pid]
        assert portable.children(()) == [child.pid]
        assert portable.children({child.pid}) == []
        assert portable.kill(found)
    assert portable.process(child.pid) is None
    assert not portable.kill(found)


def test_a_marker_is_found_in_the_environment() -> None:
    with subprocess.Popen(["sleep", "600"], env={"PATH": os.environ["PATH"], "KLEADER_TERM_x": "1"}) as child:
        wait_until(lambda: portable.environment_has(child.pid, "KLEADER_TERM_x"), "it is past exec")
        assert not portable.environment_has(child.pid, "KLEADER_TERM")
        child.kill()


def test_the_timer_makes_poll_wake_no_earlier() -> None:
    timer = portable.Timer()
    assert timer.poll_ms == -1
    timer.arm(portable.clock() + 0.02)
    at = portable.clock() + 0.02
    select.poll().poll(timer.poll_ms)
    assert portable.clock() >= at


def test_the_link_reports_the_end_of_its_peer() -> None:
    ours, theirs = portable.link_pair()
    theirs.close()
    assert ours.recv(1) == b""
    ours.close()


def test_an_anonymous_file_has_no_name() -> None:
    fd = portable.anonymous_file()
    assert os.fstat(fd).st_nlink == 0
    os.close(fd)


def test_signals_are_queued() -> None:
    code = (
        "import os, select, signal; from kleader.system import portable;"
        "queue = portable.Signals({signal.SIGTERM, signal.SIGUSR1}, set());"
        "os.kill(os.getpid(), signal.SIGTERM); select.select([queue.fd], [], []);"
        "print(*[each.number for each in queue.read()]); print(queue.read())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(int(signal.SIGTERM)), "[]"]


def test_the_null_kill_timer_has_no_effect() -> None:
    portable.KillTimer().arm(0)
    portable.die_with_parent(signal.SIGKILL)
    portable.adopt_orphans()
    assert portable.filesystem(os.stat("/proc").st_dev) == "proc"  # noqa: PTH116
