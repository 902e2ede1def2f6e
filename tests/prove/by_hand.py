"""What people do to the objects that a lock is kept in.

What is not promised is not tried: a holder that is emptied while its command runs is what a release looks like, and
whoever waits leads at once; a candidate that has never seen the lock, as client-go's every one, takes at once what was
deleted; a record by hand may have a lease duration that is over before the leader has seen it.
"""

from __future__ import annotations

import http
import json
import time
from typing import TYPE_CHECKING

from tests.prove.candidate import Missed
from tests.prove.fault import Fault, Trial
from tests.support.api import ApiError, lease_path, path
from tests.support.objects import LEADER, read_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.prove.candidate import Candidate
    from tests.prove.fleet import Fleet
    from tests.support.api import Object
    from tests.support.proxy import Proxy

PATIENCE = 30.0  # seconds until what was deleted is there again
NOBODY = "nobody"
ANNOTATED = {"configmap": "ConfigMap", "endpoints": "Endpoints"}


def objects(fleet: Fleet) -> list[str]:
    """Where the lock is kept: one path, or two."""
    lock = fleet.kind.lock
    found = [path("v1", kind, fleet.namespace, "x") for name, kind in ANNOTATED.items() if lock.startswith(name)]
    return found + [lease_path(fleet.namespace, "x")] * ("lease" in lock)


def some(trial: Trial, *, half: bool) -> Sequence[str]:
    """All of these, or one of two."""
    found = objects(trial.fleet)
    return [trial.rng.choice(found)] if half else found


def cut_off(trial: Trial) -> Proxy:
    """What lies between the leader and the API server; it says nothing from now on."""
    assert trial.leader.access is not None
    proxy = trial.leader.access.proxy
    trial.undo.callback(proxy.switch, "pass")
    proxy.switch("silent", 0)
    return proxy


class Deleted(Fault):
    """Nobody who is there may take it for free; who comes later finds it made anew."""

    def __init__(self, *, half: bool = False) -> None:
        self.name = f"{'half of a multilock' if half else 'lock'} deleted by hand"
        self._half = half

    def suits(self, fleet: Fleet, leader: Candidate) -> bool:  # noqa: ARG002
        return fleet.kind.expires and not fleet.kind.rivals and (not self._half or len(objects(fleet)) > 1)

    def inject(self, trial: Trial) -> None:
        api, gone = trial.fleet.plane.api, some(trial, half=self._half)
        for place in gone:
            api.request("DELETE", place)
        until = time.monotonic() + PATIENCE
        while not all(api.find(place) for place in gone):
            assert time.monotonic() < until, "nobody makes it anew"
            time.sleep(0.05)


class DeletedMeanwhile(Deleted):
    """Its leader hears and says nothing, and the others wait for longer than it can run."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "lock deleted by hand, its leader cut off"

    def inject(self, trial: Trial) -> None:
        cut_off(trial)
        super().inject(trial)
        duration = trial.fleet.kind.duration
        trial.lasts(0.5, duration)

    def bound(self, fleet: Fleet, hold: float) -> float:
        """A duration until it is made anew, and one until whoever has done so leads."""
        return super().bound(fleet, hold) + fleet.kind.duration


class DeletedForLife(Fault):
    """Its leader hears nothing and goes on, so it stays with that one's Pod, for all who have seen whose it was.

    Who has not, as one that is new, or that polls just now, takes it: it is not tried beside such a one.
    """

    name = "leader-for-life deleted by hand, its leader cut off"
    ends = True

    def suits(self, fleet: Fleet, leader: Candidate) -> bool:  # noqa: ARG002
        return fleet.kind.for_life

    def inject(self, trial: Trial) -> None:
        fleet = trial.fleet
        api, place = fleet.plane.api, path("v1", "ConfigMap", fleet.namespace, "x")
        owners = api.get(place)["metadata"].get("ownerReferences") or [{}]
        if owners[0].get("name") != trial.leader.identity:
            raise Missed("the lock is not the leader's any more")
        if not all(each.knows_of(trial.leader.identity) for each in fleet.others(trial.leader)):
            raise Missed("somebody has not seen whose it is")
        proxy = cut_off(trial)
        api.delete(place)
        time.sleep(trial.rng.uniform(0.5, fleet.kind.duration))
        proxy.switch("pass")
        until = time.monotonic() + PATIENCE
        while fleet.still(trial.term) and fleet.lives(trial.leader.identity):
            assert time.monotonic() < until, "its command goes on"
            time.sleep(0.05)


class Edited(Fault):
    """Another name for the holder; the rest of the record, and the incarnation, stay."""

    ends = True

    def __init__(self, what: str, holder: str, *, half: bool = False) -> None:
        self.name, self._holder, self._half = f"{what} by hand", holder, half

    def suits(self, fleet: Fleet, leader: Candidate) -> bool:  # noqa: ARG002
        return fleet.kind.expires and (not self._half or len(objects(fleet)) > 1)

    def inject(self, trial: Trial) -> None:
        for place in some(trial, half=self._half):
            self._edit(trial, place)

    def _edit(self, trial: Trial, place: str) -> None:
        """Over exactly what was read: what the leader has written meanwhile is not undone."""
        api = trial.fleet.plane.api
        while True:
            seen = api.get(place)
            record = seen["spec"] if "spec" in seen else read_record(seen)
            if record.get("holderIdentity") != trial.leader.identity:
                raise Missed("the lock is not the leader's any more")
            try:
                api.merge(place, self._patch(seen, record))
            except ApiError as error:
                if error.status == http.HTTPStatus.CONFLICT:
                    continue
                raise
            return

    def _patch(self, seen: Object, record: Object) -> Object:
        metadata: Object = {"resourceVersion": seen["metadata"]["resourceVersion"]}
        if "spec" in seen:
            return {"metadata": metadata, "spec": {"holderIdentity": self._holder}}
        text = json.dumps({**record, "holderIdentity": self._holder})
        return {"metadata": {**metadata, "annotations": {LEADER: text}}}


FAULTS: tuple[Fault, ...] = (
    Deleted(),
    Deleted(half=True),
    DeletedMeanwhile(),
    DeletedForLife(),
    Edited("holder edited", NOBODY),
    Edited("half of a multilock edited", NOBODY, half=True),
    Edited("half of a multilock emptied", "", half=True),
)
