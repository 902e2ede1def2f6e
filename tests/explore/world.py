"""All that may become of one lock and two candidates, step by step: which worlds may follow on a world.

A world is a tuple of small numbers; `values` knows what they stand for. An elector is kleader's step function, called
through its public events and actions alone. Around it stand, reduced to what they promise: the API server (versions,
compare-and-swap), the network (each request is done now, later, or never; its answer comes now, later, or never), a
watch (in order, late, with gaps), the supervisor (a command from `Acquired` until its deadline; another elector for
one that died), and hands that edit the lock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple

from kleader.election import events as e
from kleader.election import step_function as election
from kleader.election.events import Failure, Instant, Kind, Observed
from kleader.election.record import SECOND, Record
from kleader.election.state import Candidate, State
from kleader.election.timing import Timing, choose
from tests.explore.replacement import HANDED_OVER, kept, replaced
from tests.explore.values import NOW, Numbered, later, renumbered

TICK = 2.0  # seconds: a lease duration is two instants
LEASE, RETRY = 4, 1.0  # seconds: a leader renews at each instant, and has lost the lock two instants after a renewal
KILL = SKEW = 0.25  # seconds: the kill budget and the allowance for clocks lie within the last instant
WALL = 1_700_000_000 * SECOND  # every wall clock stands still: nothing is decided by it
STRANGER = "stranger"
GONE = -1  # in the place of an elector
DEAD, ALIVE, DYING = 0, 1, 2
_UNMARKED: Any = {HANDED_OVER: False}
TIMEOUT = Failure(Kind.UNREACHABLE, "timeout")


class Faults(NamedTuple):
    """How many of each there may be, in all."""

    late: int = 0  # an instant ends before all was done in it that was to be done
    lost: int = 0  # an answer that never comes; the request may be done late, or never
    gaps: int = 0  # a watch ends, or begins behind
    replaced: int = 0  # an elector dies; its supervisor starts another
    crashes: int = 0  # a whole candidate dies, or ends; another process of its name starts
    edits: int = 0
    ends: int = 0  # a command ends, and the lock is released, or handed over


@dataclass(frozen=True)
class Bounds:
    """How far to go. ``durations`` are the candidates' lease durations in seconds."""

    versions: int
    faults: Faults
    hands: frozenset[str] = frozenset()
    durations: tuple[int, int] = (LEASE, LEASE)
    instants: float = inf  # in all
    begins: str = "never held"  # or "led": by a, b has observed that; or "acquired": a does not know it yet


class Request(NamedTuple):
    """One under way. ``answer``: None while it is not done."""

    number: int
    waiting: bool = True
    creates: bool = False  # the lock, for a process that has never observed it
    answer: int | None = None


class End(NamedTuple):
    """How a term ends whose command is dead: released or kept, to whom, and whether another candidacy follows."""

    release: bool = True
    to: str = ""
    contends: bool = False

    @property
    def event(self) -> e.AllProcessesExited:
        """What the elector is told. Its last write records the run."""
        return e.AllProcessesExited(self.release, self.to, record=True)


class Member(NamedTuple):
    """A candidate: its supervisor, and what belongs to it."""

    elector: int = GONE
    up: bool = False
    candidacy: int = 0  # counts incarnations
    knows: bool = False  # since it is up the lock was observed as somebody's, or a write was sent
    kept: str = ""  # what the supervisor keeps for the next elector
    command: int = DEAD
    term: tuple[float, float, int, int] | None = None  # stop_at, dead at, acquired, transitions
    killed: bool = False  # the supervisor has still to notice that nothing of the term is alive
    ends: End | None = None
    requests: tuple[Request, ...] = ()
    watch: int = -1  # how many versions it has told of; -1: there is none


class World(NamedTuple):
    """``object``: the number of what each version shows; 0: missing."""

    object: tuple[int, ...]
    members: tuple[Member, ...]
    left: Faults
    taken: float = 0.0  # seconds for which a process that knows nothing of the lock must not create it
    instants: float = 0


class PromiseError(AssertionError):
    """What must never happen."""


class Story(NamedTuple):
    """What leads from one world to the next, for a person: who does what, and the election's actions."""

    who: int
    what: str
    actions: int = 0


class Explored:
    """The worlds within some bounds."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.names = "a", "b"
        self.me = tuple(
            Candidate(name, timing, timing.request_timeout)
            for name, timing in zip(self.names, map(_timing, bounds.durations), strict=True)
        )
        self.longest = float(max(bounds.durations))
        self.seen: Numbered[Observed | None] = Numbered()
        self.seen.number(None)
        self.electors: Numbered[State] = Numbered()
        self.requests: Numbered[e.Get | e.Write] = Numbered()
        self.answers: Numbered[e.Event] = Numbered()
        self.actions: Numbered[tuple[e.Action, ...]] = Numbered()
        self.actions.number(())
        self._steps: dict[tuple[int, e.Event | int], tuple[int, int, str | None]] = {}
        self._due: dict[int, bool] = {}
        self._aged: dict[int, int] = {}
        self._next: list[tuple[Story, World]] = []
        self.doing = Story(-1, "begins")

    # --- the beginning

    def first(self) -> World:
        """Nobody has ever held the lock."""
        return World((0,), (Member(), Member()), self.bounds.faults)

    def following(self, world: World) -> list[tuple[Story, World]]:
        """Each world that may come next. PromiseError: in one of them the promise is broken; `doing` says how."""
        self._next = []
        for who in (0, 1):
            self._of(world, who)
        if self.bounds.hands and world.left.edits:
            self._edits(world)
        self._tick(world)
        return self._next

    # --- one candidate

    def _of(self, world: World, who: int) -> None:
        one = world.members[who]
        if not one.up:
            self._start(world, who)
        elif one.elector == GONE:
            self._replace_elector(world, who)
        else:
            if self._is_due(one.elector):
                self._step(world, who, e.TimerFired(), "wakes up")
            if one.watch >= 0:
                self._watch(world, who)
        if one.killed and one.elector != GONE:
            again = one.candidacy + 1
            now = _put(world, who, one._replace(killed=False, candidacy=again, term=None))
            self._step(now, who, e.Restart(self._incarnation(who, again)), "is told that nothing of its term is alive")
        for index, request in enumerate(one.requests):
            self._request(world, who, index, request)
        self._command(world, who)
        self._misfortunes(world, who)

    def _incarnation(self, who: int, number: int) -> str:
        return f"{self.names[who]}-{number}"

    def _start(self, world: World, who: int) -> None:
        one = world.members[who]
        if one.candidacy and not world.left.crashes:
            return
        left = world.left._replace(crashes=world.left.crashes - bool(one.candidacy))
        number = one.candidacy + 1
        late = one.requests
        state = self._elector(State(self.me[who], self._incarnation(who, number)))
        fresh = Member(state, up=True, candidacy=number, requests=late)
        self._step(_put(world, who, fresh)._replace(left=left), who, e.TimerFired(), "starts")

    def _replace_elector(self, world: World, who: int) -> None:
        one, me = world.members[who], self.me[who]
        if one.term and (one.command == ALIVE or one.ends):
            state = replaced(me, self._incarnation(who, one.candidacy), one.kept, one.term)
        elif one.term and not one.killed:
            return  # it is dying: a new term begins when it is dead
        else:
            number = one.candidacy + one.killed
            one = one._replace(candidacy=number, term=None, killed=False)
            state = replaced(me, self._incarnation(who, number), one.kept, None)
        one = one._replace(elector=self._elector(state))
        world, event = _put(world, who, one), e.TimerFired()
        if not one.ends:
            self._step(world, who, event, "gets another elector")
            return
        for next_world in self._stepped(world, who, event, "gets another elector"):
            self._step(next_world, who, one.ends.event, "gets another elector, for the end")

    def _elector(self, state: State) -> int:
        return self.electors.number(later(renumbered(state), 0.0))

    def _is_due(self, elector: int) -> bool:
        due = self._due.get(elector)
        if due is None:
            due = self._due[elector] = self.electors[elector].wake_at <= NOW
        return due

    # --- its requests

    def _request(self, world: World, who: int, index: int, request: Request) -> None:
        one = world.members[who]
        others = one.requests[:index] + one.requests[index + 1 :]
        done = self.requests[request.number]
        what = "write" if isinstance(done, e.Write) else "read"
        if request.answer is None:
            self.doing = Story(who, f"'s {what} is done")
            if after := self._serve(world, done):
                next_world, answer = after
                if request.waiting:
                    others += (request._replace(answer=self.answers.number(answer)),)
                self._add(_put(next_world, who, one._replace(requests=others)), who, f"'s {what} is done")
                others = one.requests[:index] + one.requests[index + 1 :]
        elif request.waiting:
            after_answer = _put(world, who, one._replace(requests=others))
            self._step(after_answer, who, self.answers[request.answer], f"gets the answer to its {what}")
        if request.waiting and world.left.lost:
            left = world.left._replace(lost=world.left.lost - 1)
            never = _put(world, who, one._replace(requests=others))._replace(left=left)
            event = e.RequestFailed(done, TIMEOUT)
            self._step(never, who, event, f"waits in vain for the answer to its {what}")
            if request.answer is None and isinstance(done, e.Write):
                under_way = (*others, request._replace(waiting=False))
                late = _put(world, who, one._replace(requests=under_way))._replace(left=left)
                self._step(late, who, event, f"waits in vain for the answer to its {what}, which is late")

    def _serve(self, world: World, request: e.Get | e.Write) -> tuple[World, e.Event] | None:
        """The API server; None: past the bounds."""
        there, version = self.seen[world.object[-1]], len(world.object)
        if isinstance(request, e.Get):
            return world, e.GetDone(request, there)
        base = request.base
        if base is None and there is None:
            made = Observed(request.record, request.incarnation, str(version + 1), base=version + 1)
        elif base is None or there is None or (base.base, base.version) != (there.base, there.version):
            return world, e.RequestFailed(request, Failure(Kind.CONFLICT, "the object has been modified"))
        else:
            given = bool(request.record.holder and there.incarnation) and not request.incarnation
            mark: Any = {HANDED_OVER: given}
            made = Observed(request.record, request.incarnation, str(version + 1), base=there.base, **mark)
        if version >= self.bounds.versions:
            return None
        if not request.incarnation and any(one.command for one in world.members):
            msg = "the lock is given up while a command is alive"
            raise PromiseError(msg)
        number = self.seen.number(made)
        world = world._replace(object=(*world.object, number))
        return world, e.WriteDone(
            request, self.seen[number] or made
        )  # the election may ask whether it is the very same

    def _committed(self, world: World, seen: Observed | None) -> World:
        return world._replace(object=(*world.object, self.seen.number(seen)))

    # --- its watch

    def _watch(self, world: World, who: int) -> None:
        one = world.members[who]
        if one.watch < len(world.object):
            event = e.WatchEvent(self.seen[world.object[one.watch]])
            told = _put(world, who, one._replace(watch=one.watch + 1))
            self._step(told, who, event, f"'s watch tells of version {one.watch + 1}")
        if world.left.gaps:
            over = _put(world, who, one._replace(watch=-1))
            over = over._replace(left=world.left._replace(gaps=world.left.gaps - 1))
            self._step(over, who, e.WatchEnded("reset"), "'s watch ends")

    # --- its command

    def _command(self, world: World, who: int) -> None:
        one = world.members[who]
        if one.command == DYING:
            self._add(_put(world, who, one._replace(command=DEAD, killed=True)), who, "'s command has died")
        elif one.command == ALIVE and world.left.ends:
            world = world._replace(left=world.left._replace(ends=world.left.ends - 1))
            dead = one._replace(command=DEAD)
            if one.elector == GONE:  # the next one may release: it is the first that is asked to
                self._add(_put(world, who, dead._replace(killed=True)), who, "'s command ends")
                self._add(_put(world, who, dead._replace(ends=End())), who, "'s command ends for good")
                return
            for end in (End(), End(to=self.names[1 - who]), End(contends=True), End(release=False, contends=True)):
                ends = _put(world, who, dead._replace(ends=end))
                self._step(ends, who, end.event, f"'s command ends: {end}")

    # --- what befalls it

    def _misfortunes(self, world: World, who: int) -> None:
        one = world.members[who]
        if not one.up:
            return
        never = tuple(each for each in one.requests if not each.waiting)
        for requests in {never, self._late(one)}:
            if world.left.replaced and one.elector != GONE:
                left = world.left._replace(replaced=world.left.replaced - 1)
                dead = one._replace(elector=GONE, requests=requests, watch=-1)
                if one.ends:  # its release may have been done: the next one only records the run
                    dead = dead._replace(ends=one.ends._replace(release=False, to=""))
                self._add(_put(world, who, dead)._replace(left=left), who, "'s elector dies")
            if world.left.crashes:
                gone = Member(candidacy=one.candidacy, requests=requests)
                self._add(_put(world, who, gone), who, "dies")

    # --- hands

    def _edits(self, world: World) -> None:
        there, version, hands = self.seen[world.object[-1]], len(world.object), self.bounds.hands
        if version >= self.bounds.versions:
            return
        world = world._replace(left=world.left._replace(edits=world.left.edits - 1))
        number, unmarked = str(version + 1), _UNMARKED
        may_hide = all(one.knows or not one.up for one in world.members) or len(set(self.bounds.durations)) == 1
        creating = any(each.creates for one in world.members for each in one.requests)
        if there and may_hide and not creating:
            taken = world._replace(taken=self.longest)
            if "delete" in hands:
                self._add(self._committed(taken, None), -1, "the lock is deleted")
            if "strip" in hands and not there.record.is_blank:
                bare = replace(there, record=Record(), incarnation="", version=number, **unmarked)
                self._add(self._committed(taken, bare), -1, "its record is taken away")
        if "edit" in hands and there and there.record.holder and may_hide:
            for holder in {*self.names, STRANGER} - {there.record.holder}:
                edited = replace(there, record=replace(there.record, holder=holder), version=number, **unmarked)
                self._add(self._committed(world, edited), -1, f"its holder is edited to {holder}")
        if "restore" in hands and may_hide:
            for index, each in enumerate(world.object[:-1]):
                was = self.seen[each]
                if was and was.record.holder and not getattr(was, HANDED_OVER):
                    back = replace(was, version=number, base=there.base if there else version + 1)
                    self._add(self._committed(world, back), -1, f"the record of version {index + 1} is put back")

    # --- time

    def _tick(self, world: World) -> None:
        if world.instants >= self.bounds.instants:
            return
        if self._is_busy(world):
            if not world.left.late:
                return
            world = world._replace(left=world.left._replace(late=world.left.late - 1))
        members = []
        for one in world.members:
            elector = one.elector
            if elector != GONE:
                aged = self._aged.get(elector)
                if aged is None:
                    aged = self._aged[elector] = self.electors.number(later(self.electors[elector], TICK))
                elector = aged
            command, term, killed = one.command, one.term, one.killed
            if term:
                term = later(term, TICK)
                if command and term[1] <= NOW:
                    command, killed = DEAD, True
                elif command and term[0] <= NOW:
                    command = DYING
            members.append(one._replace(elector=elector, command=command, term=term, killed=killed))
        instants = world.instants + 1 if self.bounds.instants < inf else 0
        taken = max(0.0, world.taken - TICK)
        self._add(world._replace(members=tuple(members), taken=taken, instants=instants), -1, "time goes on")

    def _is_busy(self, world: World) -> bool:
        """Whether anything is to be done in this instant. A command that is being stopped may take its time."""
        return any(
            (not one.up and not one.candidacy)
            or (one.up and (one.elector == GONE or one.killed or self._is_due(one.elector)))
            or any(each.waiting for each in one.requests)
            or 0 <= one.watch < len(world.object)
            for one in world.members
        )

    # --- one step of an election

    def _step(self, world: World, who: int, event: e.Event, what: str) -> None:
        for after in self._stepped(world, who, event, what):
            self._next.append((self.doing, after))

    def _stepped(self, world: World, who: int, event: e.Event, what: str) -> list[World]:
        one, self.doing = world.members[who], Story(who, what)
        known = self._steps.get((one.elector, event))
        if known is None:
            known = self._steps[one.elector, event] = self._do(one.elector, event)
        elector, actions, memory = known
        self.doing = Story(who, what, actions)
        one = one._replace(elector=elector, kept=one.kept if memory is None else memory)
        if isinstance(event, (e.GetDone, e.WatchEvent)) and (seen := _seen(event)) and not seen.record.is_blank:
            one = one._replace(knows=True)
        worlds = [_put(world, who, one)]
        for action in self.actions[actions]:
            worlds = [after for each in worlds for after in self._perform(each, who, action)]
        return worlds

    def _do(self, elector: int, event: e.Event) -> tuple[int, int, str | None]:
        before = self.electors[elector]
        after, actions = election.step(before, event, Instant(NOW, WALL))
        if after.wake_at <= NOW:
            msg = "it spins: it wants to be woken in the past"
            raise PromiseError(msg)
        state = self._elector(after)
        made = tuple(replace(each, serial=0) if isinstance(each, (e.Get, e.Write)) else each for each in actions)
        return state, self.actions.number(made), kept(before, after)

    def _perform(self, world: World, who: int, action: e.Action) -> list[World]:
        """Do what an election asks for; no world: the promise leaves it out."""
        one = world.members[who]
        match action:
            case e.Get() | e.Write():
                return self._send(world, who, action)
            case e.Watch(seen):
                return self._watched(world, who, seen)
            case e.Unwatch():
                one = one._replace(watch=-1)
            case e.Acquired():
                one = self._acquired(world, who, action)
            case e.Renewed(_, stop_at, _) if one.command == ALIVE and one.term:
                term = max(stop_at, one.term[0]), max(self._dead_at(who, stop_at), one.term[1]), *one.term[2:]
                one = one._replace(term=term)
            case e.Lost(_, kill_now) if one.command:
                one = one._replace(command=DEAD, killed=True) if kill_now else one._replace(command=DYING)
            case e.Released() | e.AcquireFailed() if one.ends and one.ends.contends:
                one = one._replace(elector=GONE, candidacy=one.candidacy + 1, term=None, ends=None, watch=-1)
                one = one._replace(requests=self._late(one))
            case e.Released() | e.AcquireFailed():
                one = Member(candidacy=one.candidacy, requests=self._late(one))
        return [_put(world, who, one)]

    def _send(self, world: World, who: int, request: e.Get | e.Write) -> list[World]:
        one = world.members[who]
        creates = isinstance(request, e.Write) and not one.knows
        if creates and world.taken:
            return []
        requests = *self._late(one), Request(self.requests.number(request), creates=creates)
        return [_put(world, who, one._replace(requests=requests, knows=one.knows or creates))]

    def _dead_at(self, who: int, stop_at: float) -> float:
        """When nothing of a term's command is alive, by any clock."""
        timing = self.me[who].timing
        return stop_at - timing.renew_deadline + timing.lease_duration

    def _watched(self, world: World, who: int, seen: Observed | None) -> list[World]:
        one = world.members[who]
        if seen:
            return [_put(world, who, one._replace(watch=int(seen.version)))]
        latest = len(world.object)
        begins = [latest - 1 if world.object[-1] else latest]
        worlds = [_put(world, who, one._replace(watch=each)) for each in begins]
        if world.left.gaps:
            left = world.left._replace(gaps=world.left.gaps - 1)
            behind = [at for at, each in enumerate(world.object[:-1]) if each]
            worlds += [_put(world, who, one._replace(watch=each))._replace(left=left) for each in behind]
        return worlds

    def _acquired(self, world: World, who: int, action: e.Acquired) -> Member:
        one = world.members[who]
        broken = ""
        if one.command:
            broken = f"{self.names[who]} has two commands"
        elif action.stop_at <= NOW:
            broken = f"a term of {self.names[who]} begins past its deadline"
        elif world.members[1 - who].command:
            broken = f"{self.names[who]} leads while the command of {self.names[1 - who]} is alive"
        if broken:
            raise PromiseError(broken)
        dead_at = self._dead_at(who, action.stop_at)
        return one._replace(command=ALIVE, term=(action.stop_at, dead_at, action.acquired, action.transitions))

    def _late(self, one: Member) -> tuple[Request, ...]:
        """Its writes that are under way, nobody waiting for their answers any more."""
        undone = (each for each in one.requests if each.answer is None)
        writes = (each for each in undone if isinstance(self.requests[each.number], e.Write))
        return tuple(sorted({each._replace(waiting=False) for each in writes}))

    def _add(self, world: World, who: int, what: str) -> None:
        self._next.append((Story(who, what), world))


def _seen(event: e.GetDone | e.WatchEvent) -> Observed | None:
    match event:
        case e.GetDone(_, seen) | e.WatchEvent(seen):
            return seen


def _timing(lease: int) -> Timing:
    return choose(lease, lease - KILL - SKEW, RETRY, kill=KILL, skew=SKEW)


def _put(world: World, who: int, one: Member) -> World:
    members = (one, world.members[1]) if who == 0 else (world.members[0], one)
    return world._replace(members=members)
