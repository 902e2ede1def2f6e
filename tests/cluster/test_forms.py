"""What the commands print, in each form, at a terminal and in a pipe, beside kleader, client-go and operator-lib."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest
import yaml

from tests.cluster.contract import Place
from tests.cluster.fleet import PATIENT, Fleet, kill_whole
from tests.cluster.test_status import wait_out
from tests.process.test_terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Trials
    from tests.support.checker import Witness
    from tests.support.plane import Plane
    from tests.support.processes import Processes

COMMAND = [sys.executable, "-c", "import signal; signal.pause()"]
ESCAPE = re.compile("\x1b\\[[0-9;]*m")
COLOURFUL = {"TERM": "xterm", "NO_COLOR": "", "COLUMNS": "200"}
FORMS = ("", "wide", "json", "yaml", "name")
LOOKS = [
    *(("status", form) for form in FORMS),
    *(("wait", form) for form in FORMS if form != "wide"),
    *(("check", form) for form in ("", "json", "yaml")),
]
ANSWERS = ("", "json", "yaml", "name")
PAIR = "endpointsleases"
CALM = ("--lease-duration=10m", "--renew-deadline=5m", "--retry-period=1m")  # no answer is slow to it
NAMES = "endpoints/x\nlease.coordination.k8s.io/x\n"


class Asks:
    """Runs commands at a terminal, and in a pipe."""

    def __init__(self, plane: Plane, namespace: str, processes: Processes) -> None:
        self.config, self.processes = plane.kubeconfig(namespace=namespace), processes

    def argv(self, command: str, form: str, *args: str) -> list[str]:
        output = [f"--output={form}"] if form else []
        return [sys.executable, "-m", "kleader", command, f"--kubeconfig={self.config}", *output, *args]

    def in_a_pipe(self, argv: list[str]) -> str:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout + done.stderr
        return done.stdout

    def at_a_terminal(self, argv: list[str]) -> str:
        return self.ended(Terminal(self.processes, argv, **COLOURFUL))

    def both(self, argv: list[str]) -> tuple[str, str]:
        """In a pipe, and at a terminal, at once."""
        terminal = Terminal(self.processes, argv, **COLOURFUL)
        return self.in_a_pipe(argv), self.ended(terminal)

    @staticmethod
    def ended(terminal: Terminal) -> str:
        said = terminal.rest()
        assert terminal.leader.wait() == 0, said
        terminal.close()
        return said


@pytest.fixture
def asks(plane: Plane, namespace: str, processes: Processes) -> Asks:
    return Asks(plane, namespace, processes)


@pytest.fixture
def _leaders(  # noqa: PLR0917
    plane: Plane,
    namespace: str,
    processes: Processes,
    clientgo: Callable[..., list[str]],
    for_life: Callable[..., list[str]],
    asks: Asks,
) -> Iterator[None]:
    """A kleader on a Lease, client-go on two objects, operator-lib on its Pod's."""
    plane.new_pod(namespace, "pod-0")
    argv = [sys.executable, "-m", "kleader", "run", f"--kubeconfig={asks.config}", "--name=k", "--identity=me", "--"]
    started = [
        processes.start([*argv, *COMMAND]),
        processes.start(clientgo(asks.config, namespace, "go", "go-id", COMMAND, lock="configmapsleases")),
        processes.start(for_life(asks.config, namespace, "life", "pod-0", COMMAND)),
    ]
    started[0].wait_log("command_started")
    for each, said in zip(started[1:], ("started the command", "Became the leader"), strict=True):
        each.wait_err(said)
    yield
    for each in started:
        kill_whole(each)


def alike(said: str) -> str:
    """Without what differs between two looks: times, versions, and how wide they make a column."""
    return re.sub(r" +", " ", re.sub(r"-?(\d+(\.\d+)?(d|h|ms?|s)?)+", "0", said))


@pytest.mark.usefixtures("_leaders")
@pytest.mark.timeout(540)
def test_output_at_a_terminal_and_in_a_pipe_differs_only_in_colours(asks: Asks, trials: Trials) -> None:
    """Which are in what people read alone."""
    args = {"status": (), "wait": ("--for=leader", "k"), "check": ("--name=k", *CALM)}
    for command, form in LOOKS:
        argv = asks.argv(command, form, *args[command])
        piped, shown = asks.both(argv)
        colours = command == "status" and form in {"", "wide"}
        assert bool(ESCAPE.search(shown)) == colours, shown
        plain = ESCAPE.sub("", shown)
        assert alike(plain) == alike(piped)
        if form in {"json", "yaml"}:
            (found,) = yaml.safe_load_all(plain) if form == "yaml" else [json.loads(plain)]
            assert found["kind"] == {"status": "LockList", "wait": "LockChange", "check": "CheckReport"}[command]
    trials.count(2 * len(LOOKS), "looks in some form")


class Change(NamedTuple):
    """A command that changes something, a form, and where it is printed."""

    command: str
    form: str
    terminal: bool


CHANGES = [
    Change(command, form, terminal=(number + other) % 2 == 0)
    for number, form in enumerate(ANSWERS)
    for other, command in enumerate(("transfer", "resign"))
]


@pytest.mark.timeout(540)
def test_output_has_the_requested_format(  # noqa: PLR0917
    plane: Plane, namespace: str, processes: Processes, witness: Witness, asks: Asks, trials: Trials
) -> None:
    """Of a lock of two objects, from each candidate to the next."""
    place, fleet = Place(plane, namespace, PAIR), Fleet(plane, namespace, processes, witness)
    fleet.start("c0", *place.options, kubeconfig=place.kubeconfig(), timings=PATIENT)
    witness.wait_start()
    for number, (command, form, terminal) in enumerate(CHANGES, 1):
        leader, other = f"c{number - 1}", f"c{number}"
        fleet.waiting(other, *place.options, kubeconfig=place.kubeconfig(), behind=leader, timings=PATIENT)
        argv = asks.argv(
            command, form, f"--lock={PAIR}", "x", *(["--force", f"--to={other}"] if command == "transfer" else [])
        )
        said = asks.at_a_terminal(argv) if terminal else asks.in_a_pipe(argv)
        assert "\x1b" not in said
        remarks = [line for line in said.splitlines(keepends=True) if line.startswith("kleader: ")]
        assert bool(remarks) == terminal
        said = said.removeprefix("".join(remarks))
        if form in {"json", "yaml"}:
            found = yaml.safe_load(said)
            assert (found["kind"], found["lock"]["type"]) == ("LockChange", PAIR)
            assert found["lock"]["holder"] in ({other} if command == "transfer" else {other, None})
        else:
            released = rf"({other} leads|{leader} has released the lock)"
            happened = rf"{other} leads" if command == "transfer" else released
            assert said == NAMES if form == "name" else re.match(rf"endpoints/x {happened}", said), said
        assert witness.wait_start(number + 1).identity == other
    witness.check(terms=len(CHANGES) + 1)
    trials.count(len(CHANGES), "transfers and resignations in some form")


@pytest.mark.parametrize("form", ["wide", "json", "yaml", "name"])
def test_a_watch_prints_each_change_in_the_requested_format(asks: Asks, fleet: Fleet, form: str) -> None:
    """There is a live view at a terminal where no form is asked for, and nowhere else."""
    leader = fleet.start("a")
    fleet.witness.wait_start()
    argv = asks.argv("status", form, "--watch", "x")
    piped, terminal = asks.processes.start(argv), Terminal(asks.processes, argv, **COLOURFUL)
    wanted = "lease.coordination.k8s.io/x" if form == "name" else "a has released the lock, after"
    wait_out(piped, "lease")
    terminal.wait("lease")
    leader.signal(signal.SIGTERM)
    terminal.wait(wanted)
    wait_out(piped, wanted)
    terminal.type("\x03")
    shown = terminal.rest()
    assert "█" not in shown
    assert terminal.leader.wait() == -signal.SIGINT
    terminal.close()
    os.kill(piped.pid, signal.SIGINT)
    assert piped.wait() == -signal.SIGINT
    assert "\x1b" not in piped.out
    assert piped.err == ""
