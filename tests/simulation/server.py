"""A model of the API server: objects that keep a lock, their uid and resourceVersion, conflicts, a watch's history."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import count, dropwhile
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from kleader.election import events as e
from kleader.election.events import Failure, Kind, Observed
from kleader.locks.annotation_lock import AnnotationLock
from kleader.locks.lease import LeaseLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kleader.election.record import Record
    from kleader.election.request import Request
    from kleader.locks.base import LockProperties


class Stored(NamedTuple):
    """The object as etcd has it; what an Observed carries as its base."""

    uid: int
    version: int
    record: Record
    incarnation: str = ""
    fault: str = ""
    label: int = 0
    preferred: str = ""
    only_control_plane_wrote: bool = False
    request: Request | None = None
    handed_over: bool = False

    def observed(self) -> Observed:
        """As a client reads it."""
        return Observed(
            self.record,
            self.incarnation,
            str(self.version),
            self.fault,
            self,
            preferred=self.preferred,
            only_control_plane_wrote=self.only_control_plane_wrote,
            request=self.request,
            handed_over=self.handed_over,
        )


class Kept:
    """One object, or none. ``listeners`` receive every change, None for a deletion."""

    def __init__(self, name: str, properties: LockProperties, revisions: Iterator[int]) -> None:
        self.name, self.properties = name, properties
        self._revisions = revisions
        self.stored: Stored | None = None
        self.robbed_at = -inf  # by an edit that hid for how long its holder may run
        self.history: list[tuple[int, Observed | None]] = []
        self.listeners: list[Callable[[Observed | None], None]] = []

    @property
    def seen(self) -> Observed | None:
        """The object as a client reads it now."""
        return self.history[-1][1] if self.history else None

    def answer(self, request: e.Get | e.Write) -> e.GetDone | e.WriteDone | e.RequestFailed:
        """What a request comes to."""
        old = self.stored
        if isinstance(request, e.Get):
            return e.GetDone(request, self.seen)
        base: Stored | None = request.base.base if request.base else None
        record = self._as_kept(request.record)
        if base is None and old is None:
            return e.WriteDone(request, self._commit(Stored(next(self._revisions), 0, record, request.incarnation)))
        if base and old is None and self.name == "annotated":
            return e.RequestFailed(request, Failure(Kind.MISSING, "not found"))
        if base is None or old is None or (base.uid, base.version) != (old.uid, old.version):
            return e.RequestFailed(request, Failure(Kind.CONFLICT, "the object has been modified"))
        renewal = (record.holder, request.incarnation) == (old.record.holder, old.incarnation)
        preferred = old.preferred if renewal else ""
        # Who names the next leader takes its own incarnation away; client-go's candidates keep whatever is there.
        handed_over = bool(record.holder and old.incarnation) and not request.incarnation
        new = Stored(
            old.uid, old.version, record, request.incarnation, "", old.label, preferred, handed_over=handed_over
        )
        return e.WriteDone(request, self.seen if self.seen and new == old else self._commit(new))

    def edit(self, **fields: object) -> None:
        """Somebody's hand on the object."""
        if self.stored:
            self._commit(self.stored._replace(**fields))  # type: ignore[arg-type]

    def create(self, record: Record, *, incarnation: str = "", only_control_plane_wrote: bool = False) -> None:
        """Somebody else's creation."""
        if self.stored is None:
            self._commit(
                Stored(next(self._revisions), 0, record, incarnation, only_control_plane_wrote=only_control_plane_wrote)
            )

    def delete(self, now: float) -> None:
        """Somebody's hand again."""
        self.stored, self.robbed_at = None, now
        self._tell(next(self._revisions), None)

    def since(self, version: str, behind: int = 0) -> list[Observed | None]:
        """What a watch from this version begins with.

        Without one: the object as it is; or as it was that many changes ago, and then these.
        """
        if not version:
            return list(dropwhile(lambda seen: seen is None, (seen for _, seen in self.history[-1 - behind :])))
        return [seen for _, seen in self.history[bisect_right(self.history, int(version), key=itemgetter(0)) :]]

    def _as_kept(self, record: Record) -> Record:
        tick = self.properties.tick
        if tick == 1:
            return record
        acquired, renewed = (
            time if time is None else time // tick * tick for time in (record.acquired, record.renewed)
        )
        return replace(record, acquired=acquired, renewed=renewed)

    def _commit(self, stored: Stored) -> Observed:
        self.stored = stored._replace(version=next(self._revisions))
        seen = self.stored.observed()
        self._tell(self.stored.version, seen)
        return seen

    def _tell(self, revision: int, seen: Observed | None) -> None:
        self.history.append((revision, seen))
        for listener in list(self.listeners):
            listener(seen)


class Server:
    """Keeps an annotated object and a Lease of one name; ``down``: it answers nothing."""

    def __init__(self) -> None:
        revisions = count(101)
        self.annotated = Kept("annotated", AnnotationLock.properties, revisions)
        self.lease = Kept("lease", LeaseLock.properties, revisions)
        self.down = False
