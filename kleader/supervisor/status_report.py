"""What this kleader is doing: for the local status socket, the exporter and the service manager. It decides nothing."""

from __future__ import annotations

import math
import os
import socket
import time
from bisect import bisect_left as bisect

from kleader.backoff import Backoff
from kleader.election.protocol import Acquired, NewLeader
from kleader.ipc import messages as m
from kleader.ipc import status_socket
from kleader.ipc.plan import OTHER_VERSION
from kleader.supervisor.child_process import ChildProcess
from kleader.supervisor.service_manager import ServiceManager
from kleader.supervisor.states import RunState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kleader.ipc.channel import Channel
    from kleader.ipc.plan import Plan
    from kleader.log import Log
    from kleader.procs.tree_killer import ProcessTree
    from kleader.supervisor.child import Command
    from kleader.supervisor.deadline import Deadline
    from kleader.supervisor.elector_process import ElectorProcess
    from kleader.supervisor.term import Term

    Launch = Callable[[], tuple[int, Channel]]

_MAX_LEADER_CHARS = 1024  # of what other candidates wrote
_MAX_ANSWERED = 16  # requests in one turn, so that a flood delays no deadline
_REST_SECONDS = 0.05  # until the next turn that answers, so that a flood does not take the processor,
_MAX_SHARE = 0.1  # but this part of it; the time in which other processes have it does not count
_SEND_FLAGS = socket.MSG_DONTWAIT | getattr(socket, "MSG_NOSIGNAL", 0)
_RESEND_SECONDS = 1.0  # until a status that found no room on the link is sent again


class StatusServer:
    """Answers ``kleader is-leader``. Every process that connects gets the same answer; nothing is read from it."""

    def __init__(self, name: str, log: Log) -> None:
        self._socket: socket.socket | None = None
        self._path = ""
        self._rest_until = -math.inf
        try:
            self._socket, self._path = status_socket.listen(name)
        except OSError as error:
            reason = f"is-leader cannot ask this kleader: {error.strerror or error}: see {status_socket.RUNTIME_DIR}"
            log.warning(reason, event="status_socket_failed")

    @property
    def fd(self) -> int | None:
        """For poll."""
        return self._socket.fileno() if self._socket and self.due == math.inf else None

    @property
    def due(self) -> float:
        """When to call :meth:`serve` though poll says nothing."""
        return self._rest_until if self._rest_until > 0 else math.inf

    def serve(self, now: float, answer: Callable[[], bytes]) -> None:
        """Answer those who have connected."""
        if self._socket is None or now < self._rest_until:
            return
        self._rest_until = -math.inf
        status, began = b"", time.process_time()
        for _ in range(_MAX_ANSWERED):
            try:
                client = self._socket.accept()[0]
            except BlockingIOError:
                if not status:
                    return
                break
            except OSError:  # too many open files
                break
            status = status or answer()
            try:
                client.send(status, _SEND_FLAGS)  # finds room, or the client has gone
            except OSError:
                pass
            client.close()
        self._rest_until = now + max(_REST_SECONDS, (time.process_time() - began) / _MAX_SHARE)

    def close(self) -> None:
        """Leave no file."""
        if self._socket:
            self._socket.close()
            try:
                os.unlink(self._path)
            except OSError:
                return


class ExporterProcess:
    """The process that answers HTTP and writes the state file. Without ``launch`` there is none."""

    def __init__(self, launch: Launch | None, log: Log, tree: ProcessTree) -> None:
        self._launch, self._log = launch, log
        self.process = ChildProcess(tree, self._ended, Backoff(0.1, 30.0, steady=60.0))
        self._channel: Channel | None = None
        self._sent: m.Status | None = None
        self._resend_at = math.inf
        self._retired = launch is None

    @property
    def due(self) -> float:
        """When to call :meth:`send` though nothing happens."""
        if self.process.pid:
            return self._resend_at
        return math.inf if self._retired else self.process.start_at

    def retire(self) -> None:
        """Start no other: kleader ends, and one that lives ends by that."""
        self._retired = True

    def send(self, term: Term, status: m.Status, now: float) -> None:
        """Send it if it differs from the last one. An exporter that has ended is started again, after a pause."""
        if self._launch and not self.process.pid and now >= self.due:
            try:
                self._channel = self.process.start(now, self._launch)
                self._sent, self._resend_at = None, math.inf
            except OSError as error:
                self._restart(f"cannot start the exporter: {error.strerror}", now)
        same = self._sent is not None and status._replace(at=self._sent.at) == self._sent
        if self._channel and (now >= self._resend_at or not same):
            self._sent = status
            self._resend_at = math.inf if self._channel.send(term.number, status) else now + _RESEND_SECONDS

    def _ended(self, waitstatus: int, now: float) -> None:
        if self._channel:
            self._channel.close()
            self._channel = None
        if os.waitstatus_to_exitcode(waitstatus) == OTHER_VERSION:
            self.retire()
            what = "another version of kleader was installed, and the exporter died: nothing answers HTTP or writes the"
            self._log.error(f"{what} state file until kleader is started again", event="version_changed")
        else:
            self._restart("the exporter died", now)

    def _restart(self, why: str, now: float) -> None:
        self.process.pause(now)
        self._log.repeated(f"{why}: starting it again; the command goes on", event="exporter_restarted")


class StatusReport:
    """Made of the elector's messages and the parts of the supervisor; :meth:`publish` is called in each turn."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts that it is made of
        self,
        plan: Plan,
        log: Log,
        command: Command,
        deadline: Deadline,
        elector: ElectorProcess,
        launch_exporter: Launch | None,
    ) -> None:
        self._plan, self._command, self._deadline, self._elector = plan, command, deadline, elector
        self._server = StatusServer(plan.name, log)
        self.exporter = ExporterProcess(launch_exporter, log, command.tree)
        self._exports = launch_exporter is not None
        self._service_manager = ServiceManager(plan, log)
        self._leader = ""
        self._changes = 0
        self._read = plan.lock in {"", "file"}  # by now: opened, or none
        self._slow = self._reconnects = 0
        self._renewals = [0] * (len(m.RENEWALS) + 1)
        self._renewing = 0.0

    @property
    def fd(self) -> int | None:
        """For poll."""
        return self._server.fd

    @property
    def due(self) -> float:
        """When to publish though nothing happens."""
        return min(self._server.due, self.exporter.due, self._service_manager.due)

    def note(self, body: m.Body) -> None:
        """A message of the elector."""
        match body:
            case NewLeader(leader):
                self._note_leader(leader[:_MAX_LEADER_CHARS])
            case Acquired():
                self._note_leader(self._plan.identity)
            case m.Measured(read, slow, reconnects, took):
                self._read |= read
                self._slow += slow
                self._reconnects += reconnects
                if took > 0:
                    self._renewals[bisect(m.RENEWALS, took)] += 1
                    self._renewing += took

    def publish(self, state: RunState, term: Term, now: float) -> None:
        """Answer is-leader; tell the exporter and the service manager what has changed."""
        self._server.serve(now, lambda: m.encode(m.Message(term.number, self._status(state, term, now))))
        if self._exports:
            if state in {RunState.RELEASING, RunState.ENDED}:
                self.exporter.retire()
            self.exporter.send(term, self._status(state, term, now), now)
        self._service_manager.notify(state, term, self._leader, read=self._read, now=now)

    def close(self) -> None:
        """The end of this kleader."""
        self._server.close()

    def _note_leader(self, leader: str) -> None:
        self._read = True
        self._changes += leader not in {"", self._leader}
        self._leader = leader

    def _status(self, state: RunState, term: Term, now: float) -> m.Status:
        plan, lead = self._plan, term.lead
        held = state in {RunState.LEADING, RunState.STOPPING} and not term.lost
        main = self._command.main if self._command.main and self._command.main.started else None
        return m.Status(
            at=now,
            role=state.value,
            held=held,
            leads=held and (main is not None or self._command.draining),
            lock=plan.lock,
            namespace=term.namespace,
            name=plan.name,
            identity=plan.identity,
            leader=self._leader,
            token=lead.token if lead else "",
            transitions=lead.transitions if lead else 0,
            acquired=lead.acquired if lead else 0,
            renewed=term.t0 if lead else math.inf,
            stop_at=self._deadline.stop_at,
            kill_at=self._deadline.kill_at,
            pid=main.pid if main else 0,
            start=main.start if main else 0,
            read=self._read,
            transitions_seen=self._changes,
            restarts=self._command.restarts,
            electors=self._elector.restarts,
            slow=self._slow,
            reconnects=self._reconnects,
            renewals=list(self._renewals),
            renewing=self._renewing,
            silent_since=self._elector.silent_since,
            file=plan.file,
        )
