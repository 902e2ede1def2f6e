"""A model of the API server: one Lease, its uid and resourceVersion, conflicts, no-op updates, a watch's history."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kleader.election import events as e
from kleader.election.events import Failure, Kind, Observed

if TYPE_CHECKING:
    from collections.abc import Callable

    from kleader.election.record import Record


@dataclass(frozen=True)
class Stored:
    """The object as etcd has it; what an Observed carries as its base."""

    uid: int
    version: int
    record: Record
    incarnation: str = ""
    fault: str = ""
    label: int = 0
    preferred: str = ""
    untouched: bool = False

    def observed(self) -> Observed:
        """As a client reads it."""
        return Observed(
            self.record,
            self.incarnation,
            str(self.version),
            self.fault,
            self,
            preferred=self.preferred,
            untouched=self.untouched,
        )


class Server:
    """Keeps at most one object. ``listeners`` hear of every change, None for a deletion."""

    def __init__(self) -> None:
        self.revision = 100
        self.stored: Stored | None = None
        self.history: list[tuple[int, Observed | None]] = []
        self.listeners: list[Callable[[Observed | None], None]] = []

    def answer(self, request: e.Get | e.Write) -> e.Got | e.Wrote | e.Failed:
        """What a request comes to."""
        old = self.stored
        if isinstance(request, e.Get):
            return e.Got(request, old.observed() if old else None)
        base: Stored | None = request.base.base if request.base else None
        if base is None and old is None:
            return e.Wrote(request, self._commit(Stored(self.revision, 0, request.record, request.incarnation)))
        if base is None or old is None or (base.uid, base.version) != (old.uid, old.version):
            return e.Failed(request, Failure(Kind.CONFLICT, "the object has been modified"))
        renewal = (request.record.holder, request.incarnation) == (old.record.holder, old.incarnation)
        new = replace(
            old,
            record=request.record,
            incarnation=request.incarnation,
            fault="",
            preferred=old.preferred if renewal else "",
            untouched=False,
        )
        return e.Wrote(request, old.observed() if new == old else self._commit(new))

    def edit(self, **fields: object) -> None:
        """Somebody's hand on the object."""
        if self.stored:
            self._commit(replace(self.stored, **fields))  # type: ignore[arg-type]

    def create(self, record: Record, *, untouched: bool) -> None:
        """Somebody else's creation."""
        if self.stored is None:
            self._commit(Stored(self.revision, 0, record, untouched=untouched))

    def delete(self) -> None:
        """Somebody's hand again."""
        self.revision += 1
        self.stored = None
        self._tell(None)

    def since(self, version: str) -> list[Observed | None]:
        """What a watch from this version begins with; without one: the object as it is."""
        if not version:
            return [self.stored.observed()] if self.stored else []
        return [seen for revision, seen in self.history if revision > int(version)]

    def _commit(self, stored: Stored) -> Observed:
        self.revision += 1
        self.stored = replace(stored, version=self.revision)
        seen = self.stored.observed()
        self._tell(seen)
        return seen

    def _tell(self, seen: Observed | None) -> None:
        self.history.append((self.revision, seen))
        for listener in list(self.listeners):
            listener(seen)
