"""A real supervisor with an elector that follows a script: `scripted.py FILE`, FILE being JSON.

script: [[when, type, fields]], said in this order by the first elector: so many seconds after its start, or once a file
of this name exists; then there is another, with .said after its name. stop_at and kill_at are seconds after its start,
too, or after that file was found. next: the script of every other candidate's.
heard: the file to which each elector appends what it hears, with the instant, its own start's and pid, and who is below
the supervisor.
words: kleader's options and command; plan_fd: what they make, or null. plan: what is otherwise in it.
fault: where the supervisor stops itself (SIGSTOP), once: "before fork", "before release";
or where the forked child does: "before PDEATHSIG";
or "a bug": it raises when it hears of a renewal; or "may not kill": the command's processes are another user's, one by
one (all at once, kill(-1), is not refused);
or "an old Python": it lacks what kernel headers before 5.3 had not;
or "no killer": as it hears of a renewal, all that finds processes and kills them has no memory;
or "undying": an elector that the supervisor kills does not die of it.
when: the supervisor stops itself before it takes signals, once, as soon as a file of this name exists.
no_timer: without the kernel's guard.
full: while a file of this name exists, there is no room for another elector.
other_version: an elector that is started in the middle of a term is of another version, as after an upgrade.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from kleader import launch, system
from kleader.election import protocol as p
from kleader.election.timing import Timing
from kleader.elector import launchers
from kleader.ipc import messages as m
from kleader.ipc import plan as plans
from kleader.ipc.channel import Channel
from kleader.ipc.spawn import Launcher
from kleader.procs.tree_killer import TreeKiller
from kleader.supervisor import child
from kleader.supervisor.child import Child
from kleader.supervisor.child_process import ChildProcess
from kleader.supervisor.leadership import Leadership
from kleader.supervisor.state_machine import RunStateMachine

if TYPE_CHECKING:
    from kleader.ipc.plan import Plan

KILL = os.kill
TYPES: dict[str, Any] = {kind.__name__.lower(): kind for kind in get_args(m.Body)}
RENEW_DEADLINE = 10.0  # seconds, where the options give no other


class Scripted(Launcher):
    """Starts electors that do as they are told."""

    releases = True

    def __init__(self, script: list[list[Any]], after: list[list[Any]], heard: str, full: str) -> None:
        self.other_version = False
        self._script, self._next, self._heard, self._full = script, after, heard, full

    def start(self, *, leading: bool) -> tuple[int, Channel]:
        """A fork."""
        if os.path.exists(self._full):  # noqa: PTH110
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        ours, theirs = system.link_pair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            if leading and self.other_version:
                os._exit(plans.OTHER_VERSION)
            play(Channel(theirs), [] if leading else self._script, self._heard)
            os._exit(0)
        self._script = self._next
        theirs.close()
        return pid, Channel(ours)


def play(channel: Channel, script: list[list[Any]], heard: str) -> None:
    """One elector's life."""
    born, left, assigned = system.clock(), script[:], False
    poll = select.poll()
    poll.register(channel.fd, select.POLLIN)
    while channel.open:
        while assigned and left and is_time(left[0][0], born):
            when, kind, fields = left.pop(0)
            if kind in {"acquired", "renewed"}:
                fields.setdefault("t0", fields["stop_at"] - RENEW_DEADLINE)
            for name in {"t0", "stop_at", "kill_at"} & set(fields):
                fields[name] += system.clock() if isinstance(when, str) else born
            channel.send(fields.pop("term", 1), TYPES[kind](**fields))
            if isinstance(when, str):
                Path(f"{when}.said").touch()
        poll.poll(2 if left else None)
        for message in channel.receive():
            assigned = True
            children = Path(f"/proc/{os.getppid()}/task/{os.getppid()}/children").read_text(encoding="ascii").split()
            told = {
                "type": type(message.body).__name__,
                "term": message.term,
                "at": system.clock(),
                "children": children,
                "pid": os.getpid(),
            }
            told["born"] = born
            with Path(heard).open("a", encoding="utf-8") as file:
                file.write(json.dumps({**message.body._asdict(), **told}) + "\n")
            if isinstance(message.body, p.AllProcessesExited):
                release = message.body.release
                channel.send(message.term, p.Released(release, "" if release else "asked not to"))
                return


def is_time(when: float | str, born: float) -> bool:
    """Whether something is to be said by now."""
    return os.path.exists(when) if isinstance(when, str) else system.clock() >= born + when  # noqa: PTH110


def stop_once(room: Any, name: str, when: str = "/") -> None:  # noqa: ANN401
    """Have the supervisor stop itself where it calls this for the first time that there is such a file."""
    real = getattr(room, name)

    def stopped(*given: Any, **more: Any) -> Any:  # noqa: ANN401
        if os.path.exists(when):  # noqa: PTH110
            setattr(room, name, real)
            os.kill(os.getpid(), signal.SIGSTOP)
        return real(*given, **more)

    setattr(room, name, stopped)


def fail(*_: object) -> None:
    """As a bug might."""
    message = "a bug"
    raise RuntimeError(message)


def exhaust(*_: object) -> None:
    """As where there is no memory."""
    raise MemoryError


def lose_the_killer(*_: object) -> None:
    """From here on nothing of kleader's own can find a process or kill one."""
    for name in ("children", "below", "kill", "sigkill", "process", "processes", "dead_for_good"):
        setattr(system, name, exhaust)
    for room, name in ((Child, "kill"), (TreeKiller, "kill_until_empty")):
        setattr(room, name, exhaust)
    exhaust()


def refuse(pid: int, number: int) -> None:
    """As the kernel where the process has changed its user; the elector has not."""
    line = Path(f"/proc/{pid}/cmdline").read_bytes() if pid > 0 else b""  # empty: it has ended
    if number == signal.SIGKILL and line and b"scripted" not in line:
        raise PermissionError
    KILL(pid, number)


def refuse_group(_group: int, _number: int) -> None:
    """Likewise, for each process of the group."""
    raise PermissionError


def spoil(fault: str) -> None:
    """What goes wrong in the supervisor, or is missing."""
    if fault == "a bug":
        Leadership.renewed = fail  # type: ignore[assignment,method-assign]
    elif fault == "may not kill":
        os.kill = refuse
        os.killpg = refuse_group
    elif fault == "an old Python":
        del os.pidfd_open, os.memfd_create
    elif fault == "no killer":
        Leadership.renewed = lose_the_killer  # type: ignore[assignment,method-assign]
    elif fault == "undying":
        ChildProcess.kill = lambda _self: None  # type: ignore[assignment,method-assign]


def plan_of(words: list[str]) -> Plan:
    """What the command line makes of these, here: it logs, or listens."""
    from kleader.cli.commands import cli  # noqa: PLC0415 - it takes longer than the rest

    caught: list[Plan] = []
    launch.become_supervisor = caught.append  # type: ignore[assignment]
    cli.main(["run", *words], prog_name="kleader", standalone_mode=False)
    return caught[0]


def main() -> None:
    """As the head of this file says."""
    given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    plan = plans.load(given["plan_fd"]) if given["plan_fd"] else plan_of(given["words"])
    if given.get("fault") == "before fork":
        stop_once(child, "spawn")
    elif given.get("fault") == "before release":
        stop_once(child.Child, "release")
    elif given.get("fault") == "before PDEATHSIG":
        stop_once(system, "die_with_parent")
    spoil(given.get("fault", ""))
    if given.get("when"):
        stop_once(RunStateMachine, "receive", given["when"])
    if given.get("no_timer"):
        system.KillTimer.arm = lambda _self, _at: None  # type: ignore[assignment,method-assign]
    starter = Scripted(given["script"], given.get("next", given["script"]), given["heard"], given.get("full", ""))
    starter.other_version = given.get("other_version", False)
    launchers.FileElectors = lambda *_: starter  # type: ignore[assignment,misc]
    starter.heartbeat_timeout = given.get("silence", float("inf"))
    fd = system.anonymous_file()
    other = given.get("plan", {})
    timing = plan.timing._replace(**{name: other.pop(name) for name in {*other} & {*Timing._fields}})
    plans.save(plan._replace(timing=timing, **other), fd)
    os._exit(launch.supervise(fd))


main()
