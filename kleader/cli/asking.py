"""How ``resign`` and ``transfer`` leave their request on a lock, and find out what comes of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, NoReturn, cast

from kleader import platform
from kleader.cli import forms, reach, words
from kleader.cli.say import FAILED, Repeated, fail, remark
from kleader.election.duration import text
from kleader.election.events import Kind
from kleader.election.record import UNKNOWN, called
from kleader.election.request import Request
from kleader.locks import file
from kleader.locks.base import LockError
from kleader.locks.permissions import to_ask
from kleader.watching import fleet
from kleader.watching.board import Board
from kleader.watching.files import Files
from kleader.watching.seen import Look, State

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from kleader.cli.reach import Asked
    from kleader.election.events import Observed
    from kleader.locks.object import ObjectLock
    from kleader.watching.board import Change
    from kleader.watching.source import Source

NOT_DONE = 1
_HOPELESS = {Kind.DENIED, Kind.REFUSED, Kind.HOPELESS}
_KLEADER = "kleader"  # its field manager: as its requests' User-Agent
_AGAIN = 0.2  # seconds before a request that was not answered is made again
_LOOK = 0.5  # seconds between two looks at the clock


class TimeIsUpError(Exception):
    """--timeout is over; the message is what nobody could tell, "" if all could be seen."""


class Errand:
    """One lock at the API that something is wanted of, by ``end`` (boot clock)."""

    def __init__(self, what: Asked, timeout: float) -> None:
        self.what, self.timeout = what, timeout
        self.end = platform.clock() + timeout
        self.objects: list[ObjectLock] = []  # that the lock is kept in, the primary first
        self._trouble = ""

    async def looks(self) -> AsyncGenerator[tuple[Look | None, list[Change]], None]:
        """The lock as it is now, and what has happened to it since; again when nothing has. TimeIsUpError at the end.

        Ends with 125 where looking cannot help.
        """
        what = self.what
        sources, namespace = await reach.sources(what)
        self.objects = _objects(what, sources, namespace)
        clock, board, repeated = reach.Clock(sources), Board(len(sources), what.kind, named=True), Repeated()
        seen = False
        async for told in fleet.follow(sources, board, clock.now, _LOOK):
            if told.trouble:
                self._trouble = str(told.trouble)
                if told.trouble.failure.kind in _HOPELESS and not seen:
                    self._give_up(told.trouble)
                repeated.remark(self._trouble)
            if platform.clock() >= self.end:
                raise TimeIsUpError("" if board.complete and not board.blind else self._trouble or "no answer yet")
            if board.complete and not board.blind:
                looks = board.looks(platform.clock(), clock.now())
                yield looks[0] if looks else None, told.changes
                seen = True

    async def again(self, error: LockError) -> None:
        """After a request that failed: wait before the next one, or end with 125 where that cannot help."""
        if error.failure.kind in _HOPELESS:
            self._give_up(error)
        if error.failure.kind is not Kind.CONFLICT:
            self._trouble = str(error)
        if platform.clock() + error.failure.retry_after >= self.end:
            raise TimeIsUpError(self._trouble)
        await asyncio.sleep(max(_AGAIN, error.failure.retry_after))

    async def leave(self, request: Request) -> bool:
        """Leave the request on the lock; False: it is of another term by now. Writes in between are no obstacle."""
        lock = self.objects[0]
        while True:
            try:
                seen = await lock.get(self.what.timeout)
                if seen.incarnation != request.incarnation:
                    return False
                writer = lock.writer(seen.base)
                if writer not in {"", _KLEADER}:  # client-go keeps the annotations of whom it took the lock from
                    self._refuse(words.printable(f"{request.holder[:256]}, of {writer}"))
                if request.to and _coordinated(seen):
                    fail(
                        f"the control plane names the leader of {self._name}: only resign can ask for another", NOT_DONE
                    )
                await lock.ask(seen, request, self.what.timeout)
            except LockError as error:
                if error.failure.kind is Kind.MISSING:
                    return False
                await self.again(error)
            else:
                return True

    def _give_up(self, error: LockError) -> NoReturn:
        needed = ""
        if error.failure.kind is Kind.DENIED:
            verbs = dict.fromkeys(f"{each.verb} {each.resource}" for each in to_ask(self.what.kind, self.what.name))
            needed = f"; this takes {', '.join(verbs)}"
        fail(f"{error}{needed}", FAILED)

    @property
    def _name(self) -> str:
        return f"the lock {self.what.name}"

    def leader(self, look: Look | None) -> Look:
        """The present leader, if it can be asked for something; ends with 1 otherwise."""
        if look is None:
            fail(f"there is no {self.what.kind} lock {self.what.name}", NOT_DONE)
        holder = who(term(look))
        if look.state is State.MALFORMED:
            fail(f"{look.seen.fault}: nobody can be asked; kleader resign --force mends it", NOT_DONE)
        if look.seen.record.holder == UNKNOWN:
            fail(f"the two objects of {self._name} have different holders: wait until one of them has both", NOT_DONE)
        if look.seen.given:
            fail(f"{holder} has just been named the next leader, and has not taken the lock yet", NOT_DONE)
        if look.state is not State.FREE and not look.seen.incarnation:
            self._refuse(holder)
        return look

    @staticmethod
    def _refuse(who: str) -> NoReturn:
        mend = "end its process, or see --force of kleader resign"
        fail(f"held by {who}, which is no kleader and cannot be asked: {mend}", NOT_DONE)


class Term(NamedTuple):
    """Whom something was asked of."""

    holder: str
    incarnation: str


def term(look: Look | None) -> Term:
    """Of the present holder."""
    return Term(look.seen.record.holder, look.seen.incarnation) if look else Term("", "")


def who(asked: Term) -> str:
    """For people."""
    return words.printable(called(asked.holder)[:256])


async def resign(what: Asked, timeout: float, form: str) -> None:
    """Return when the leader is another, or none, having printed what is; exit with 1 otherwise."""
    errand, asked = Errand(what, timeout), Term("", "")
    try:
        async for look, changes in errand.looks():
            if not asked.incarnation:
                leader = errand.leader(look)
                if leader.state is State.FREE:
                    forms.answer(leader, [], form)
                    return
                asked = term(leader)
                if await errand.leave(Request(*asked)):
                    remark(f"asked {who(asked)} to resign")
            elif look is None or term(look) != asked:
                if look and look.state is State.MALFORMED:
                    fail(look.seen.fault, NOT_DONE)
                forms.answer(look, changes, form)
                return
            elif look.state is State.EXPIRED:
                fail(_dead(look), NOT_DONE)
    except TimeIsUpError as error:
        late(errand, error, f"{who(asked)} has not resigned")


async def transfer(what: Asked, to: str, timeout: float, form: str) -> None:
    """Return when ``to`` leads, having printed that; exit with 1 where it does not, or another does."""
    errand, asked, reason = Errand(what, timeout), Term("", ""), ""
    try:
        async for look, changes in errand.looks():
            if not asked.incarnation:
                asked = await _ask_for(errand, look, to)
                reason = f"{who(asked)} has not handed the lock over"
            elif look and term(look) == asked:
                if look.state is State.EXPIRED:
                    fail(_dead(look), NOT_DONE)
            elif look is None or look.state in {State.FREE, State.MALFORMED}:
                reason = f"{who(asked)} has ended its term otherwise, and {to} does not lead"
            elif look.seen.given and look.seen.record.holder == to:
                reason = f"{to} has not taken the lock"
                for change in changes if not form else []:
                    remark(words.printable(change.sentence))
            elif look.seen.record.holder == to:
                forms.answer(look, changes, form)
                return
            else:
                fail(f"{reason}: {who(term(look))} leads instead", NOT_DONE)
    except TimeIsUpError as error:
        late(errand, error, reason or "nothing was asked for")


async def _ask_for(errand: Errand, look: Look | None, to: str) -> Term:
    leader = errand.leader(look)
    holder = leader.seen.record.holder
    if leader.state is State.FREE:
        fail(f"nobody leads, so nobody can hand the lock to {to}", NOT_DONE)
    if holder == to:
        fail(f"{to} leads already", NOT_DONE)
    if leader.seen.lasting:
        fail("a lock that is its Pod's cannot be handed to another one: only resign can ask for it", NOT_DONE)
    asked = term(leader)
    if await errand.leave(Request(*asked, to)):
        remark(f"asked {who(asked)} to hand the lock to {words.printable(to)}")
    return asked


def _dead(look: Look) -> str:
    duration = text(look.seen.record.duration)
    return f"{who(term(look))} has not renewed the lock for {duration}: anybody may take it by now"


def late(errand: Errand, error: TimeIsUpError, sentence: str) -> NoReturn:
    """End with 1, or with 125 where nobody can tell."""
    if str(error):
        fail(f"nobody can tell after {text(errand.timeout)}: {error}", FAILED)
    fail(f"{sentence} within {text(errand.timeout)}", NOT_DONE)


def _objects(what: Asked, sources: list[fleet.Follows], namespace: str) -> list[ObjectLock]:
    from kleader.locks import kinds
    from kleader.locks.api import Api

    source = cast("Source", sources[0])
    return kinds.objects(what.kind, Api(source.api.credentials), namespace, what.name, {})


def _coordinated(seen: Observed) -> bool:
    spec = seen.base.get("spec")
    return isinstance(spec, dict) and bool(spec.get("strategy"))


def refuse_file(what: Asked) -> None:
    """Nothing can be asked on a lock file: its leader is on this machine. Ends with 1 where the lock is one."""
    if what.kind != "file":
        return
    try:
        path = what.path or file.default_path(what.namespace or "default", what.name)
        found, _ = reach.run(Files(path).look())
        if not any(seen.record.holder for seen in found.values()):
            fail(f"nobody holds the lock file {path}", NOT_DONE)
        with open(path, "rb") as opened:
            pid = (file.read(opened.fileno()) or {}).get("pid")
    except (OSError, LockError) as error:
        fail(f"no requests are left in a lock file: {error}", NOT_DONE)
    how = f"kill -TERM {pid}" if isinstance(pid, int) else "TERM"
    fail(f"no requests are left in a lock file: its leader is on this machine, end it with {how}", NOT_DONE)
