"""What happens on the way to the API server: TCP and HTTP faults, and credentials that are replaced under way."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING

from tests.prove.candidate import Missed
from tests.prove.fault import Fault, Trial
from tests.prove.on_processes import send_signal
from tests.support import faults

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.prove.candidate import Access, Candidate
    from tests.prove.fleet import Fleet
    from tests.support.httpproxy import Action, Request
    from tests.support.proxy import Mode

RENEWED = 5.0  # seconds for which a certificate is good that is about to be replaced


def access(candidate: Candidate) -> Access:
    assert candidate.access is not None, "the file lock has no network"
    return candidate.access


class Network(Fault):
    """A mode of the TCP proxy, for the leader or for everybody."""

    blocks = True

    def __init__(self, name: str, mode: Mode, slowest: float = 0) -> None:
        self.name, self._mode, self._slowest = f"network: {name}", mode, slowest

    def suits(self, fleet: Fleet, leader: Candidate) -> bool:  # noqa: ARG002
        return fleet.kind.api

    def inject(self, trial: Trial) -> None:
        fleet, rng = trial.fleet, trial.rng
        everybody = [each for each in fleet.slots.values() if each.access]
        befallen = everybody if rng.random() < 0.3 else [trial.leader]
        pause = rng.uniform(self._slowest / 100, self._slowest)
        for each in befallen:
            proxy = access(each).proxy
            trial.undo.callback(proxy.switch, "pass")
            proxy.switch(self._mode, pause)
        trial.lasts(0.5, fleet.kind.duration + 2)


class Http(Fault):
    """What is done to the leader's requests of one method; half of the time to everybody's."""

    blocks = True

    def __init__(self, name: str, action: Callable[[random.Random], Action], method: str | None = None) -> None:
        self.name, self._action, self._method = f"API: {name}", action, method

    def suits(self, fleet: Fleet, leader: Candidate) -> bool:
        return fleet.kind.api and access(leader).token_file is not None

    def inject(self, trial: Trial) -> None:
        fleet, rng = trial.fleet, trial.rng
        assert fleet.http is not None
        fleet.http.requests.clear()  # what it remembers is not looked at
        theirs = access(trial.leader).authorizations if rng.random() < 0.5 else None

        def hit(request: Request) -> bool:
            return theirs is None or request.headers.get("authorization") in theirs

        some = rng.choice((1, None))
        rule = fleet.http.on(self._action(rng), method=self._method, where=hit, times=some)
        trial.undo.callback(rule.remove)
        trial.lasts(0.5, fleet.kind.duration + 2)


def status(code: int, reason: str, headers: dict[str, str] | None = None) -> Action:
    """An answer in the API server's own form."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "-"}
    return faults.answer(code, body, headers)


def lost(rng: random.Random) -> Action:
    return faults.lose(rng.choice(("silent", "reset", "close")))


def throttled(rng: random.Random) -> Action:
    return status(429, "TooManyRequests", {"Retry-After": str(rng.randint(0, 3))})


def broken(rng: random.Random) -> Action:
    code, reason = rng.choice(((500, "InternalError"), (503, "ServiceUnavailable"), (504, "Timeout")))
    return status(code, reason)


def garbage(rng: random.Random) -> Action:
    kinds: tuple[Callable[[], Action], ...] = (
        lambda: faults.raw(rng.randbytes(200)),
        lambda: faults.answer(200, rng.randbytes(200)),
        lambda: faults.answer(200, {}),
        lambda: faults.answer(200, json.dumps([None]).encode()),
    )
    return rng.choice(kinds)()


class TokenReplaced(Fault):
    """The file holds another token, and the old one is refused from now on."""

    name = "token replaced, the old one refused"

    def suits(self, fleet: Fleet, leader: Candidate) -> bool:
        return fleet.kind.api and access(leader).token_file is not None

    def inject(self, trial: Trial) -> None:
        mine = access(trial.leader)
        assert mine.token_file is not None
        assert trial.fleet.http is not None
        old = mine.token_file.read_text()
        new = next(token for token in mine.tokens if token != old)
        fresh = mine.token_file.with_suffix(".new")
        fresh.write_text(new)
        fresh.replace(mine.token_file)
        refused = status(401, "Unauthorized")
        rule = trial.fleet.http.on(
            refused, where=lambda request: request.headers.get("authorization") == f"Bearer {old}", times=None
        )
        trial.undo.callback(rule.remove)
        trial.lasts(2, 5)


class CertificateExpires(Fault):
    """The leader's elector reads one that is about to expire; when it does, the kubeconfig holds another."""

    name = "client certificate expires, renewed"

    def suits(self, fleet: Fleet, leader: Candidate) -> bool:
        return fleet.kind.api and access(leader).token_file is None

    def inject(self, trial: Trial) -> None:
        mine = access(trial.leader)
        before = len(trial.leader.process.logged("elector_replaced"))
        mine.renew(RENEWED)
        issued = time.monotonic()
        send_signal([trial.leader.elector()], signal.SIGKILL)
        while len(trial.leader.process.logged("elector_replaced")) == before:
            if not trial.leader.running or time.monotonic() > issued + RENEWED:
                mine.renew(100_000)
                raise Missed("the elector was not replaced in time")
            time.sleep(0.02)
        time.sleep(trial.rng.uniform(1, 2))  # it has read the kubeconfig by now, or reads the new one
        mine.renew(100_000)
        trial.hold = max(0.0, issued + RENEWED + 1.5 - time.monotonic())


FAULTS: tuple[Fault, ...] = (
    Network("silent", "silent"),
    Network("connections reset", "reset"),
    Network("connections refused", "refuse"),
    Network("slow", "delay", 1.0),
    Network("answers trickle", "trickle", 0.2),
    Network("answers dropped", "drop-answers"),
    Http("answers of writes lost", lost, "PUT"),
    Http("409 to writes", lambda _: status(409, "Conflict"), "PUT"),
    Http("410 to reads", lambda _: status(410, "Expired"), "GET"),
    Http("429", throttled),
    Http("500, 503, 504", broken),
    Http("garbage", garbage),
    Http("answers cut off", lambda rng: faults.cut(rng.randint(0, 300))),
    Http("writes arrive late", lambda rng: faults.slow(before=rng.uniform(0.5, 4)), "PUT"),
    TokenReplaced(),
    CertificateExpires(),
)
