"""Follows locks as a challenger would: by what was seen, on this machine's clock. Pure: instants are arguments.

``boot`` is in seconds on the clock that decides, ``wall`` in microseconds since the epoch, for people.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from kleader.election.duration import text
from kleader.election.record import SECOND, UNKNOWN, Record, called
from kleader.watching import seen as s
from kleader.watching.pairs import PAIRS, arrange
from kleader.watching.seen import Look, Seen, State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kleader.watching.seen import Key
    from kleader.watching.source import News

_SETTLING = 1.0  # seconds for which a pair may differ while somebody writes the one and then the other


class Change(NamedTuple):
    """What happened to a lock; ``seconds``: how long it took, or had taken, as the sentence says."""

    event: (
        str  # present, acquired, given, released, expired, renewed, malformed, mended, moved, deleted; "": it goes on
    )
    sentence: str
    look: Look
    seconds: float | None = None
    alive: bool = False  # somebody wrote it just now, and holds it


@dataclass(slots=True)
class _Track:
    """One lock, since it was first seen."""

    seen: Seen
    unchanged_since: float  # boot
    state: State
    led_since: float | None = None  # boot; None: not seen by us
    ended: float | None = None  # boot: when it was released, or its time had run out
    by: str = ""  # whose time that was
    unsettled_since: float | None = None
    emptied: float | None = None  # boot: when one of two objects was, while they differed


class Board:
    """What is known of all locks that are followed; ``asked`` and ``named`` as in pairs.arrange."""

    def __init__(self, sources: int, asked: str, *, named: bool) -> None:
        self._asked, self._named = asked, named
        self._waited_for = set(range(sources))
        self._of: list[dict[Key, Seen]] = [{} for _ in range(sources)]
        self._tracks: dict[Key, _Track] = {}
        self._blind: set[int] = set()  # who does not look sees nothing expire

    @property
    def complete(self) -> bool:
        """Whether every source has told what there is, or that it cannot."""
        return not self._waited_for

    @property
    def blind(self) -> bool:
        """Whether something that is followed cannot be seen now."""
        return bool(self._blind)

    def tell(self, source: int, news: News, boot: float, wall: int) -> list[Change]:
        """What a source tells. Until all of them have told there are no changes: a pair comes from two."""
        objects, first = self._of[source], not self.complete
        live = not news.whole and not self.blind  # nothing can have happened in between
        if news.trouble is None:
            self._blind.discard(source)
            known = dict(objects)
            if news.whole:
                objects.clear()
            for key, seen in news.seen.items():
                before = known.get(key)
                if seen:
                    objects[key] = before if before and seen.older(before) else seen
                else:
                    objects.pop(key, None)
        else:
            self._blind.add(source)
        self._waited_for.discard(source)
        if not self.complete:
            return []
        places = None if first or news.whole else {key[1:] for key in news.seen}
        return list(self._settle(places, boot, wall, first=first, live=live))

    def tick(self, boot: float, wall: int) -> list[Change]:
        """What has happened although nobody told anything."""
        changes: list[Change] = []
        for track in self._tracks.values():
            since = track.unsettled_since
            if since is not None and boot >= since + _SETTLING:
                track.unsettled_since = track.emptied = None
                changes += self._changed(track, self._torn(track), boot, wall)
            elif track.state is State.HELD and not self._blind and _left(track, boot) <= 0:
                changes.append(self._expired(track, boot, wall))
        return changes

    def wake_at(self) -> float | None:
        """When the next :meth:`tick` has something to say, on the boot clock; None: never, as far as is known."""
        expiries = [
            track.unchanged_since + track.seen.record.duration
            for track in self._tracks.values()
            if track.state is State.HELD and not track.seen.lasting and not self._blind
        ]
        unsettled = [t.unsettled_since + _SETTLING for t in self._tracks.values() if t.unsettled_since is not None]
        return min([*expiries, *unsettled], default=None)

    def looks(self, boot: float, wall: int) -> list[Look]:
        """All locks as they are now, by namespace and name."""
        tracks = sorted(self._tracks.values(), key=lambda track: (*track.seen.key[1:], track.seen.kind))
        return [self._look(track, boot, wall) for track in tracks]

    # --- from objects to locks

    def _settle(
        self, places: set[tuple[str, str]] | None, boot: float, wall: int, *, first: bool, live: bool
    ) -> Iterator[Change]:
        """Compare what there is with what there was, at these places or (None) at all."""
        here = {
            key: seen for objects in self._of for key, seen in objects.items() if places is None or key[1:] in places
        }
        pairs = {key for key in self._tracks if key[0] in PAIRS}
        locks = {seen.key: seen for seen in arrange(here, self._asked, named=self._named, known=pairs)}
        for key in [key for key in self._tracks if (places is None or key[1:] in places) and key not in locks]:
            track = self._tracks.pop(key)
            kin = [other for other in locks if _is_part(key, other)]
            if not kin:
                yield self._deleted(track, boot, wall)
            elif kin[0] not in self._tracks:
                track.seen = replace(track.seen, kind=kin[0][0])
                self._tracks[kin[0]] = track
                how = "two objects" if kin[0][0] in PAIRS else "one object alone"
                yield Change("moved", f"kept in {how} now", self._look(track, boot, wall))
        for key, seen in sorted(locks.items(), key=lambda each: (*each[0][1:], each[0][0])):
            known = self._tracks.get(key)
            if known is None:
                yield self._new(seen, boot, wall, first=first)
            elif seen.record.holder == UNKNOWN and known.seen.record.holder != UNKNOWN:
                known.unsettled_since = boot if known.unsettled_since is None else known.unsettled_since
                parts = [here.get((kind, *key[1:])) for kind in (PAIRS.get(key[0], ""), "lease")]
                if known.emptied is None and any(part and not part.record.holder for part in parts):
                    known.emptied = boot
            else:
                known.unsettled_since = None
                if live and _overtaken(known, seen, boot):
                    yield self._expired(known, boot, wall)
                emptied, known.emptied = known.emptied, None
                if emptied is not None and seen.record.holder not in {"", known.seen.record.holder}:
                    yield from self._changed(known, replace(known.seen, record=Record(), incarnation=""), emptied, wall)
                yield from self._changed(known, seen, boot, wall)

    def _torn(self, track: _Track) -> Seen:
        """A pair whose objects still differ."""
        objects = {key: seen for each in self._of for key, seen in each.items() if key[1:] == track.seen.key[1:]}
        locks = arrange(objects, self._asked, named=self._named, known={track.seen.key})
        return next((seen for seen in locks if seen.key == track.seen.key), track.seen)

    # --- what happened

    def _new(self, seen: Seen, boot: float, wall: int, *, first: bool) -> Change:
        state = s.watched(seen, 0, wall).state
        track = self._tracks[seen.key] = _Track(seen, boot, state, None if first else boot)
        look, holder = self._look(track, boot, wall), called(seen.record.holder)
        if not first and state is State.HELD:
            return Change("acquired", f"{holder} leads, by a new lock", look, alive=True)
        said = {State.FREE: "free", State.MALFORMED: f"malformed, which counts as held: {seen.fault}"}
        return Change("present", said.get(state) or f"held by {holder}{_for(_led(track, boot, wall))}", look)

    def _expired(self, track: _Track, boot: float, wall: int) -> Change:
        record, holder = track.seen.record, called(track.seen.record.holder)
        track.state, track.by = State.EXPIRED, holder
        track.ended = track.unchanged_since + record.duration
        failed = "taken it within" if track.seen.given else "renewed it for"
        said = f"{holder} has not {failed} {text(record.duration)}: anybody may take it"
        return Change("expired", said, self._look(track, boot, wall), float(record.duration))

    def _deleted(self, track: _Track, boot: float, wall: int) -> Change:
        holder = called(track.seen.record.holder)
        gone = Seen(*track.seen.key)
        said = f"deleted, while {holder} held it" if track.state is State.HELD else "deleted"
        return Change("deleted", said, s.watched(gone, 0, wall), _led(track, boot, wall) if holder else None)

    def _changed(self, track: _Track, seen: Seen, boot: float, wall: int) -> Iterator[Change]:
        before, was = track.seen, track.state
        left, led = _left(track, boot) if was is State.HELD else 0.0, _led(track, boot, wall)
        track.seen = seen
        if _same(before, seen):
            return
        track.unchanged_since = boot
        state = track.state = s.watched(seen, 0, wall).state
        holder, former = called(seen.record.holder), called(before.record.holder)
        anew = seen.term != before.term or before.given or was in {State.FREE, State.MALFORMED}
        if state is State.HELD and anew:
            track.led_since = boot
        look = self._look(track, boot, wall)
        if state is State.MALFORMED:
            yield Change("malformed", f"malformed, which counts as held: {seen.fault}", look)
        elif state is State.FREE:
            if was is not State.FREE:
                track.ended, track.by = boot, former
                said = f"{former} has released it{_after(led)}" if former else "free again"
                yield Change("released", said, look, led)
        elif seen.given:
            track.ended, track.by = boot, former
            said = f"{former} has named {holder} the next leader, who has {text(seen.record.duration)} to take it"
            yield Change("given", said, look, led)
        elif was is State.MALFORMED:
            yield Change("mended", f"held by {holder}, and readable again", look, alive=True)
        elif anew:
            yield self._acquired(track, before, was, left, look, boot)
        elif was is State.EXPIRED:
            late = boot - (track.ended or boot)
            yield Change(
                "renewed", f"{holder} has renewed it after all, {_short(late)} too late", look, late, alive=True
            )
        else:
            yield Change("", "", look, alive=True)  # a renewal

    def _acquired(  # noqa: PLR0913, PLR0917 - what was before
        self, track: _Track, before: Seen, was: State, left: float, look: Look, boot: float
    ) -> Change:
        holder, former = called(track.seen.record.holder), called(before.record.holder)
        took = boot - track.ended if track.ended is not None and (was is not State.HELD or before.given) else None
        track.ended = None
        if took is not None and was is State.EXPIRED:
            said = f"{holder} leads, {_short(took)} after the time of {track.by} had run out"
        elif took is not None and before.given and holder == former:
            said = f"{holder} leads, {_short(took)} after {track.by} had named it"
        elif took is not None and track.by:
            said = f"{holder} leads, {_short(took)} after {track.by} had released it"
        elif holder == former:
            said = f"{holder} leads anew"
        elif former and was is State.HELD:
            rest = "" if before.lasting or left <= 0 else f", which had {_short(left)} left"
            said = f"{holder} leads instead of {former}{rest}"
        else:
            said = f"{holder} leads"
        return Change("acquired", said, look, took, alive=True)

    @staticmethod
    def _look(track: _Track, boot: float, wall: int) -> Look:
        """Nothing has expired before that was told as a change."""
        return s.watched(track.seen, boot - track.unchanged_since, wall)._replace(state=track.state)


def _same(before: Seen, seen: Seen) -> bool:
    """Whether nobody wrote the record meanwhile, whatever else was written."""
    told = seen.record, seen.incarnation, seen.fault, seen.given
    return (before.record, before.incarnation, before.fault, before.given) == told


def _overtaken(track: _Track, seen: Seen, boot: float) -> bool:
    """Whether who took it in its time's last instant was faster to tell than a tick of ours."""
    others = not seen.given and seen.record.holder not in {"", track.seen.record.holder}
    return others and track.state is State.HELD and _left(track, boot) <= 0


def _left(track: _Track, boot: float) -> float:
    seen = track.seen
    return float("inf") if seen.lasting else track.unchanged_since + seen.record.duration - boot


def _led(track: _Track, boot: float, wall: int) -> float | None:
    """For how long its holder has led: by our clock where we saw it begin, else by the record's."""
    record: Record = track.seen.record
    if not record.holder or track.seen.fault:
        return None
    if track.led_since is not None:
        return boot - track.led_since
    return None if record.acquired is None else max(0.0, (wall - record.acquired) / SECOND)


def _is_part(one: Key, other: Key) -> bool:
    """Whether a lock has become part of another, or was one."""
    return one[1:] == other[1:] and (one[0] in PAIRS) != (other[0] in PAIRS)


def _short(seconds: float) -> str:
    return text(round(seconds, 3 if seconds < 10 else 0))  # noqa: PLR2004 - beyond that milliseconds tell nothing


def _after(led: float | None) -> str:
    return "" if led is None else f", after {_short(led)}"


def _for(led: float | None) -> str:
    return "" if led is None else f", for {_short(led)}"
