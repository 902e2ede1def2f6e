"""Three candidates for one lock of one kind, their witness, and what lies between them and the API server."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from tests.prove import rivals
from tests.prove.candidate import BROOD, ELSEWHEN, INIT, PLAIN, STEPPED, Access, Candidate, Missed, Style, words
from tests.support.api import path_of
from tests.support.checker import Witness
from tests.support.httpproxy import HttpProxy
from tests.support.port import LOOPBACK
from tests.support.processes import Processes
from tests.support.proxy import Proxy
from tests.support.witness import clock

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from tests.prove.kinds import Kind
    from tests.support.api import Object
    from tests.support.checker import Term
    from tests.support.controlplane import ControlPlane
    from tests.support.processes import Process

SLOTS = ("a", "b", "c")
RIVALS = {"a": 0.0, "b": 0.8, "c": 1.0}  # how likely it is one, where a kind has rivals
STYLES = (PLAIN, BROOD, BROOD, INIT, ELSEWHEN, STEPPED)
RULES: list[Object] = [
    {
        "apiGroups": ["", "coordination.k8s.io"],
        "resources": ["leases", "configmaps", "endpoints", "services", "pods", "leasecandidates", "events"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    }
]
DISK = 4 << 20  # bytes of the file lock's file system
#: Other duties, which may cost no promise: most candidates have one.
DUTIES = (
    (),
    ("--state-file={state}",),
    ("--http=127.0.0.1:0",),
    ("--health=true", "--health-period=5s"),
    ("--on-new-leader=true",),
)
STANDBY = ("--standby=sleep 100000",)
BEATING = 0.3  # seconds since the last beat of a command that runs


@dataclass(frozen=True)
class Setting:
    """What a fleet runs in."""

    directory: Path  # its own
    rng: random.Random
    kleader: Path  # the directory that holds the package
    styles: tuple[Style, ...]
    small_disk: bool  # the file lock has a file system of its own


class Fleet:
    """Candidates in slots; one that has ended is started again by `settle`."""

    def __init__(self, name: str, kind: Kind, plane: ControlPlane | None, setting: Setting) -> None:
        self.name, self.kind, self._plane = name, kind, plane
        self.directory, self.rng, self.kleader, self._setting = setting.directory, setting.rng, setting.kleader, setting
        self.witness = Witness(self.directory / "witness.log")
        self.processes = Processes(self.directory)
        self.slots: dict[str, Candidate] = {}
        self.namespace = ""
        self.users: dict[str, tuple[str, str]] = {}
        self.http: HttpProxy | None = None
        self._numbers = itertools.count(1)
        self._last: deque[Process] = deque(maxlen=6)
        self._pods: dict[str, Object] = {}

    @property
    def plane(self) -> ControlPlane:
        assert self._plane is not None, "the file lock needs none"
        return self._plane

    # --- beginning and end

    def open(self) -> None:
        """Start the candidates; `settle` awaits them."""
        if not self.kind.api:
            self.lock_file.parent.mkdir()
            if self._setting.small_disk:
                mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", str(self.lock_file.parent)]
                subprocess.run(mount, check=True)
        else:
            self.namespace = self.plane.new_namespace(self.kind.lock)
            self.users = {slot: (self.plane.new_bare_user(), self.plane.new_bare_user()) for slot in SLOTS}
            self._grant()
            self.http = HttpProxy(self.plane).start()
            self.proxies = {slot: Proxy(LOOPBACK, self.http.port).start() for slot in SLOTS}
            self.roads = {slot: Proxy(LOOPBACK, self.plane.port).start() for slot in SLOTS}
        for slot in SLOTS:
            self._start(slot)

    def close(self) -> None:
        """Kill all of them."""
        for candidate in self.slots.values():
            self.put_down(candidate)
        if self.http:
            for proxy in (*self.proxies.values(), *self.roads.values(), self.http):
                with contextlib.suppress(Exception):  # a rule's call may have failed: the witness tells
                    proxy.stop()
        if os.path.ismount(self.lock_file.parent):
            subprocess.run(["umount", "--lazy", str(self.lock_file.parent)], check=True)

    def _grant(self) -> None:
        users = [user for pair in self.users.values() for user in pair]
        group = "rbac.authorization.k8s.io"
        meta = {"namespace": self.namespace, "name": "all"}
        self.plane.api.create({"apiVersion": f"{group}/v1", "kind": "Role", "metadata": meta, "rules": RULES})
        subjects = [{"apiGroup": group, "kind": "User", "name": user} for user in users]
        role = {"apiGroup": group, "kind": "Role", "name": "all"}
        binding = {"kind": "RoleBinding", "metadata": meta, "subjects": subjects, "roleRef": role}
        self.plane.api.create({"apiVersion": f"{group}/v1", **binding})
        self.plane.wait_allowed(self.namespace, RULES[0], user=users[-1])

    # --- candidates

    def _start(self, slot: str) -> None:
        earlier, rng, kind = self.slots.get(slot), self.rng, self.kind
        if kind.rivals and rng.random() < RIVALS[slot]:
            self._start_rival(slot)
            return
        earlier = None if earlier and earlier.rival else earlier
        again = earlier is not None and not kind.for_life and rng.random() < 0.3  # as a StatefulSet's Pod
        identity = earlier.identity if earlier and again else f"{slot}-{next(self._numbers)}"
        # Without its content the lock file remembers no token: then the machine's wall clock has to be right.
        style = rng.choice([each for each in self._setting.styles if kind.api or not each.stepped])
        access = self._access(slot) if kind.api else None
        argv = [*style.prefix, sys.executable, "-m", "kleader", "run", *kind.arguments(), f"--identity={identity}"]
        argv += [f"--kubeconfig={access.config}"] if access else [f"--lock=file:{self.lock_file}"]
        argv += ["--name=x", "--stop-timeout=3s"]
        duties = (*DUTIES, STANDBY) if kind.api else DUTIES  # on a file lock it is not told from the guard
        argv += [part.format(state=self.directory / f"state-{slot}") for part in rng.choice(duties)]
        argv += [f"--restart={rng.choice(('no', 'always'))}", f"--on-loss={rng.choice(('exit', 'wait'))}", "--"]
        argv += [*style.leaving, *self.witness.command(*style.does, "--most=100000")]
        env: dict[str, str | None] = {"KUBECONFIG": None, "POD_NAME": None, "POD_NAMESPACE": None}
        if kind.for_life:
            self._pods[identity] = self.plane.new_pod(self.namespace, identity)
            env |= {"POD_NAME": identity, "POD_NAMESPACE": self.namespace}
        wall = self.directory / f"wall-{slot}" if style.stepped else None
        if wall:
            wall.write_bytes(bytes(8))
            env |= {"WALL": str(wall)}
        process = self.processes.start(argv, name=identity, env=env, cwd=self.kleader)
        self._last.append(process)
        self.slots[slot] = Candidate(identity, style, process, access, wall)

    def _start_rival(self, slot: str) -> None:
        identity = f"go-{next(self._numbers)}"  # client-go takes its own name for its own lock: it has no other's
        process = self.processes.start(rivals.argv(self, identity), name=identity)
        self._last.append(process)
        self.slots[slot] = Candidate(identity, PLAIN, process, None, rival=True)

    @property
    def lock_file(self) -> Path:
        return self.directory / "disk" / "lock"

    def _access(self, slot: str) -> Access:
        users, rng = self.users[slot], self.rng
        tokens = (self.plane.token(users[0]), self.plane.token(users[1]))
        if rng.random() < 0.7:
            proxy = self.proxies[slot]
            file = self.directory / f"token-{slot}"
            file.write_text(rng.choice(tokens))
            config = self.plane.kubeconfig(users[0], self.namespace, server=proxy.url, tokenFile=file)
            return Access(config, proxy, tokens, file, lambda _: None)
        proxy = self.roads[slot]
        config = self._certified(users, proxy, 100_000)

        def renew(seconds: float) -> None:
            self._certified(users, proxy, seconds).replace(config)

        return Access(config, proxy, tokens, None, renew)

    def _certified(self, users: tuple[str, str], proxy: Proxy, seconds: float) -> Path:
        user = self.rng.choice(users)
        crt, key = self.plane.certificate(user, valid=seconds)
        return self.plane.kubeconfig(user, self.namespace, server=proxy.url, client_certificate=crt, client_key=key)

    def put_down(self, candidate: Candidate) -> None:
        """Kill all of its processes."""
        with contextlib.suppress(Missed):
            candidate.kill()
        candidate.process.wait()

    # --- who leads

    def leader(self) -> tuple[Candidate, Term]:
        """The candidate whose command runs, and its term; Missed where there is none just now."""
        term = self.witness.newest(since=clock() - round(BEATING * 1e9))  # a client-go that was stopped may lead again
        if term is None:
            raise Missed("nobody leads")
        for candidate in self.slots.values():
            if candidate.identity == term.identity and candidate.running:
                return candidate, term
        raise Missed("the leader is none of us")

    def others(self, leader: Candidate) -> list[Candidate]:
        """Who runs besides."""
        return [each for each in self.slots.values() if each is not leader and each.running]

    @property
    def whole(self) -> bool:
        """All are running, one leads, and everybody knows that somebody does."""
        if not all(each.running and each.knows for each in self.slots.values()):
            return False
        try:
            leader, term = self.leader()
        except Missed:
            return False
        return bool(term.descendants) or not leader.style.brood

    def settle(self, timeout: float, over: Term | None = None) -> bool:
        """Start again who has ended, until the fleet is whole and that term is over; False where it is not in time."""
        until = time.monotonic() + timeout
        while not self.whole or (over and self.still(over)):
            self.look_after()
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return True

    def still(self, term: Term) -> bool:
        """Whether no other has begun."""
        newest = self.witness.newest()
        return newest is not None and newest.main.key == term.main.key

    def look_after(self) -> None:
        """Start again who has ended; its Pod, in which nothing runs any more, goes."""
        for slot, candidate in self.slots.items():
            if candidate.running:
                continue
            if self.kind.for_life:
                if self.lives(candidate.identity):
                    continue
                with contextlib.suppress(OSError, AssertionError):  # the API server is away just now
                    self._remove_pod(candidate.identity)
                if candidate.identity in self._pods:
                    continue
            with contextlib.suppress(OSError, AssertionError):
                self._start(slot)

    def _remove_pod(self, name: str) -> None:
        if name not in self._pods:
            return
        self.plane.api.request("DELETE", f"{path_of(self._pods[name])}?gracePeriodSeconds=0")
        if self.plane.api.find(path_of(self._pods[name])) is None:
            del self._pods[name]

    def lives(self, identity: str) -> bool:
        """Whether any process of this candidate's command does: a Pod outlives them."""
        log = str(self.witness.path)
        for each in psutil.process_iter():
            if log in (said := words(each)) and "run" not in said:
                with contextlib.suppress(psutil.Error):
                    if each.environ().get("KLEADER_IDENTITY") == identity:
                        return True
        return False

    def logs(self) -> str:
        """What the candidates said last, and who was there before them."""
        return "\n".join(process.tail(15) for process in self._last)


def story(fleet: Fleet) -> str:
    """The end of the witness's story, and what the candidates said."""
    return "\n".join([*fleet.witness.story().splitlines()[-40:], fleet.logs()])
