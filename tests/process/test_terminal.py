"""At a real terminal (pty), below a shell with job control."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.process.conftest import KLEADER
from tests.process.test_file_lock import state
from tests.support.processes import PATIENCE, alive, descendants, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.process.conftest import Start
    from tests.support.checker import Witness
    from tests.support.processes import Processes

pytestmark = pytest.mark.slow

CTRL_C, CTRL_Z, CTRL_BACKSLASH = "\x03", "\x1a", "\x1c"
PROMPT = "ready> "
REPORTER = "import os, signal, sys\n" + "\n".join(
    f"signal.signal(signal.SIG{name}, lambda *_: (os.write(1, b'got-{name}\\n'), sys.exit(9) if {last} else None))"
    for name, last in (("INT", True), ("TERM", True), ("WINCH", False))
)


class Terminal:
    """The other end of a terminal whose session leader is one program."""

    def __init__(self, processes: Processes, argv: list[str], **env: str) -> None:
        self._master, slave = pty.openpty()
        self.text = ""
        self.leader = processes.start(
            ["setsid", "--ctty", *argv], stdin=slave, stdout=slave, stderr=slave, env={"PS1": PROMPT, **env}
        )
        os.close(slave)

    def type(self, text: str) -> None:
        """As if typed."""
        os.write(self._master, text.encode())

    def wait(self, pattern: str, timeout: float = PATIENCE) -> re.Match[str]:
        """The first match in what came since the last one, as soon as it is there; what came before it is dropped."""
        deadline = time.monotonic() + timeout
        while not (found := re.search(pattern, self.text)):
            assert time.monotonic() < deadline, f"{pattern!r}: not within {timeout:g} s:\n{self.text}"
            if select.select([self._master], [], [], 0.05)[0]:
                try:
                    self.text += os.read(self._master, 65536).decode(errors="replace")
                except OSError:
                    assert re.search(pattern, self.text), f"{pattern!r}: the terminal was closed:\n{self.text}"
        self.text = self.text[found.end() :]
        return found

    def rest(self) -> str:
        """All that comes until the last program at it has ended, as it was written."""
        with contextlib.suppress(OSError):  # nobody has it open any more
            while data := os.read(self._master, 65536):
                self.text += data.decode(errors="replace")
        return self.text.replace("\r\n", "\n")

    def foreground(self) -> int:
        """The process group that has the terminal."""
        return os.tcgetpgrp(self._master)

    def close(self) -> None:
        os.close(self._master)


@pytest.fixture
def shell(processes: Processes) -> Iterator[Terminal]:
    """An interactive shell, at its prompt."""
    terminal = Terminal(processes, ["bash", "--norc", "--noprofile", "--noediting", "-i"])
    terminal.wait(PROMPT)
    yield terminal
    terminal.close()


@pytest.fixture
def run(lock: Path, tmp_path: Path) -> str:
    """The words that start kleader, logging to a file."""
    return f"{' '.join(KLEADER)} run --lock=file:{lock} --name=t --identity=shells"


def log(path: Path, pattern: str, count: int = 1) -> None:
    """Return once the log has it so often."""
    wait_until(lambda: len(re.findall(pattern, path.read_text() if path.exists() else "")) >= count, pattern)


def status(shell: Terminal) -> int:
    """$? of the last command."""
    shell.type("echo status=$?.\n")
    return int(shell.wait(r"\nstatus=(\d+)\.")[1])


def test_ctrl_c_reaches_the_command_once_and_ends_kleader_in_spite_of_restart(
    shell: Terminal, run: str, witness: Witness, tmp_path: Path
) -> None:
    err = tmp_path / "err"
    shell.type(f"{run} --restart=always -- {' '.join(witness.command())} 2>{err}\n")
    term = witness.wait_start()
    wait_until(lambda: shell.foreground() == term.pid, "the foreground given to the command")
    shell.type(CTRL_C)
    shell.wait(PROMPT)
    assert status(shell) == 130
    assert "released the lock" in err.read_text()
    assert "restarting" not in err.read_text()
    assert shell.foreground() == shell.leader.pid
    witness.check(terms=1)


LOOP = "while :; do echo round; {}; done; echo over"


def test_ctrl_c_ends_a_shells_loop_around_kleader_too(shell: Terminal, run: str, witness: Witness, lock: Path) -> None:
    """Whether it ends the command or a candidate that waits: the shell sees a death by SIGINT, as of any program."""
    shell.type(LOOP.format(f"{run} -q -- {' '.join(witness.command())}") + "\n")
    shell.wait("\nround")
    term = witness.wait_start()
    wait_until(lambda: shell.foreground() == term.pid, "the foreground given to the command")
    shell.type(CTRL_C)
    shown = shell.wait(rf"(?s)(.*?){PROMPT}")[1]
    assert "round" not in shown
    assert "over" not in shown
    assert status(shell) == 130
    lock.write_text('{"kleader": 1, "holderIdentity": "another"}')
    with lock.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        shell.type(LOOP.format(f"{run} -- true") + "\n")
        shell.wait("the leader is another")
        shell.type(CTRL_C)
        shown = shell.wait(rf"(?s)(.*?){PROMPT}")[1]
        assert "SIGINT came: exiting with status 130" in shown
        assert "round" not in shown
    assert status(shell) == 130
    witness.check(terms=1)


def test_ctrl_c_that_the_command_handles_does_not_end_a_shell_loop(shell: Terminal, run: str, tmp_path: Path) -> None:
    """It chose its own status: the shell goes on, as it would without kleader."""
    script = tmp_path / "reporter.py"
    script.write_text(f"{REPORTER}\nprint('up', flush=True)\nwhile True: signal.pause()\n")
    shell.type(f"for i in 1 2; do {run} -q -- {sys.executable} {script}; echo it said $?; done\n")
    for _ in range(2):
        shell.wait("\nup")
        shell.type(CTRL_C)
        shell.wait("\nit said 9")
    shell.wait(PROMPT)


def test_a_command_that_handles_ctrl_c_gets_it_once(shell: Terminal, run: str, tmp_path: Path) -> None:
    script = tmp_path / "reporter.py"
    script.write_text(f"{REPORTER}\nprint('up', flush=True)\nwhile True: signal.pause()\n")
    shell.type(f"{run} -q -- {sys.executable} {script}\n")
    shell.wait("\nup")
    shell.type(CTRL_C)
    shown = shell.wait(rf"(?s)(.*?){PROMPT}")[1]
    assert shown.count("got-INT") == 1
    assert status(shell) == 9


@pytest.mark.parametrize(("key", "number"), [(CTRL_C, 130), (CTRL_BACKSLASH, 131)])
def test_a_command_in_a_pipeline_gets_ctrl_c_once(  # noqa: PLR0917
    shell: Terminal, run: str, witness: Witness, tmp_path: Path, key: str, number: int
) -> None:
    err = tmp_path / "err"
    shell.type(f"ulimit -c 0; {run} --restart=always -- {' '.join(witness.command())} 2>{err} | cat\n")
    term = witness.wait_start()
    assert os.getpgid(term.pid) == shell.foreground()
    shell.type(key)
    shell.wait(PROMPT)
    wait_until(lambda: "released the lock" in err.read_text(), "the release")
    assert "restarting" not in err.read_text()
    assert err.read_text().count("started the command") == 1
    assert f"ended by SIG{'INT' if number == 130 else 'QUIT'}" in err.read_text()
    witness.check(terms=1)


def test_ctrl_z_does_not_stop_a_leader_which_says_so(
    shell: Terminal, run: str, witness: Witness, tmp_path: Path
) -> None:
    err = tmp_path / "err"
    shell.type(f"{run} -- {' '.join(witness.command())} 2>{err}\n")
    term = witness.wait_start()
    wait_until(lambda: shell.foreground() == term.pid, "the foreground given to the command")
    shell.type(CTRL_Z)
    log(err, "suspended by SIGTSTP while it leads: continuing it")
    witness.wait_beats(2)
    assert state(os.getpgid(term.pid)) != "T"
    assert shell.foreground() == term.pid
    shell.type(CTRL_C)
    shell.wait(PROMPT)
    assert status(shell) == 130
    witness.check(terms=1)


def test_a_candidate_ignores_ctrl_z_and_goes_on_contending(
    shell: Terminal, run: str, witness: Witness, candidate: Start, tmp_path: Path
) -> None:
    first = candidate(witness.command(), name="first")
    witness.wait_start()
    err = tmp_path / "err"
    shell.type(f"{run} -- {' '.join(witness.command())} 2>{err}\n")
    log(err, "the leader is first")
    shell.type(CTRL_Z)
    log(err, "ignored SIGTSTP: a waiting candidate is not suspended")
    first.signal(signal.SIGTERM)
    assert first.wait() == 0
    assert witness.wait_start(2).identity == "shells"
    shell.type(CTRL_C)
    shell.wait(PROMPT)
    assert status(shell) == 130
    witness.check(terms=2)


def test_ctrl_c_ends_a_candidate(shell: Terminal, run: str, witness: Witness, candidate: Start) -> None:
    candidate(witness.command(), name="first")
    witness.wait_start()
    shell.type(f"{run} -- true\n")
    shell.wait("the leader is first")
    shell.type(CTRL_C)
    shell.wait(PROMPT)
    assert status(shell) == 130


def test_the_command_gets_the_terminal_and_kleader_takes_it_back(shell: Terminal, run: str) -> None:
    """It reads what is typed, though the shell started kleader; afterwards the shell does."""
    shell.type(f"{run} -q -- sh -c 'read line; echo got=$line.'\n")
    shell.type("hello\n")
    shell.wait(r"got=hello\.")
    shell.wait(PROMPT)
    assert shell.foreground() == shell.leader.pid
    assert status(shell) == 0


def test_a_background_job_leaves_the_terminal_to_the_shell(
    shell: Terminal, run: str, witness: Witness, tmp_path: Path
) -> None:
    err = tmp_path / "err"
    shell.type(f"{run} -- {' '.join(witness.command())} 2>{err} &\n")
    witness.wait_start()
    assert shell.foreground() == shell.leader.pid
    shell.type("kill %1; wait %1; echo status=$?.\n")
    assert shell.wait(r"\nstatus=(\d+)\.")[1] == "0"
    witness.check(terms=1)


def test_ctrl_z_does_not_stop_a_candidate_that_leads_its_session(
    processes: Processes, run: str, witness: Witness, candidate: Start
) -> None:
    """As below `ssh -t` or `docker exec -t`: no shell could continue it."""
    first = candidate(witness.command(), name="first")
    witness.wait_start()
    terminal = Terminal(processes, [*run.split(), "--", *witness.command()])
    terminal.wait("the leader is first")
    terminal.type(CTRL_Z)
    terminal.wait("ignored SIGTSTP")
    first.signal(signal.SIGTERM)
    assert witness.wait_start(2).identity == "shells"
    terminal.type(CTRL_C)
    assert terminal.leader.wait() == 130
    terminal.close()
    witness.check(terms=2)


def test_without_a_terminal_the_command_has_a_group_of_its_own(candidate: Start, witness: Witness) -> None:
    kleader = candidate(witness.command(), start_new_session=True)
    term = witness.wait_start()
    assert os.getpgid(term.pid) == term.pid
    kleader.signal(signal.SIGTERM)
    assert kleader.wait() == 0


def test_a_terminal_that_hangs_up_reaches_the_command(
    processes: Processes, run: str, witness: Witness, tmp_path: Path
) -> None:
    terminal = Terminal(processes, [*run.split(), "--", *witness.command()])
    term = witness.wait_start()
    wait_until(lambda: terminal.foreground() == term.pid, "the foreground")
    terminal.close()
    assert terminal.leader.wait() == 128 + signal.SIGHUP
    assert not alive(term.pid)


def test_keys_do_not_reach_the_elector(shell: Terminal, run: str, witness: Witness, tmp_path: Path) -> None:
    err = tmp_path / "err"
    shell.type(f"{run} -- {' '.join(witness.command('--ignore-term'))} 2>{err}\n")
    term = witness.wait_start()
    kleader = psutil.Process(term.pid).ppid()
    guard = next(pid for pid in descendants(kleader) if os.getsid(pid) == pid)
    shell.type(CTRL_Z)
    log(err, "continuing it")
    witness.wait_beats(2)
    assert alive(guard)
    os.kill(kleader, signal.SIGTERM)
    os.kill(kleader, signal.SIGINT)
    shell.wait(PROMPT)
    witness.check(terms=1)


@pytest.mark.parametrize(
    "args", [["is-leader", "--name=t"], ["manifest", "--image=i", "--", "./t"], ["completion", "zsh"]]
)
def test_machine_readable_output_is_the_same_at_a_terminal(
    processes: Processes, alone: Start, place: Path, args: list[str]
) -> None:
    """Byte for byte, and without colours."""
    if args[0] == "is-leader":
        alone(["sleep", "60"], "--name=t").wait_log("command_started")
    piped = processes.start([*KLEADER, *args])
    terminal = Terminal(processes, [*KLEADER, *args], TERM="xterm", NO_COLOR="")
    shown = terminal.rest()
    assert piped.wait() == terminal.leader.wait() == 0
    assert shown == piped.out
    assert "\x1b" not in shown
    terminal.close()
