"""Following: client-go's tryAcquireOrRenew for one who does not lead, woken by a watch instead of polling."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from kleader.election import earlier, look, named, release, renew
from kleader.election import events as e
from kleader.election.duration import text
from kleader.election.events import Failure, Kind, Observed
from kleader.election.record import SECOND, UNKNOWN, Record, called
from kleader.election.state import Phase
from kleader.election.transition import Transition  # noqa: TC001 - as everywhere here
from kleader.exits import FAILED, NOT_ACQUIRED

if TYPE_CHECKING:
    from collections.abc import Callable

CROWD = 4  # races lost in a row that tell a crowd from a few rivals
SPREAD = 1.0  # seconds over which a crowd spreads
ASIDE = 4  # lease durations for who may write but half a multilock: others may have longer ones
SILENT = "the API server has not answered in the time given by --wait: check the network to it, or wait longer"


def proceed(turn: Transition) -> None:
    """Give up, read, or take: what the instant calls for."""
    pursue(turn, _take, _why_not)


def pursue(turn: Transition, take: Callable[[Transition], None], why_not: Callable[[Transition], str]) -> None:
    """The same for any kind of lock: how it is taken, and why it could not be."""
    s, now = turn.s, turn.now.boot
    impatient = now >= s.give_up_at
    if isinstance(s.pending, e.Get) and impatient:
        s.pending = None
    if s.pending:
        return
    tried = s.trouble or (s.known and (s.spent or s.turn_at > now + spread(turn)))
    if impatient or (s.me.one_try and tried):
        _give_up(turn, why_not)
    elif now < s.call_at:
        return
    elif now >= s.read_at:
        turn.send(e.Get(s.serial, s.me.request_timeout))  # 1. obtain the record
    elif now >= s.turn_at and not s.spent:
        take(turn)


# --- 2. remember what was seen, and when it last changed


def _observe(turn: Transition, seen: Observed | None, *, told: bool = False) -> None:
    """``told``: by a watch, which leaves out nothing between what was seen before and this."""
    s = turn.s
    if s.doubt and not (seen and s.mine(seen)):  # another may have had what was created without an answer
        s.gone_wait = max(s.gone_wait, s.me.timing.lease_duration)
    unseen = s.behind and _begins(s.seen, seen) if told else not (seen and s.seen and s.seen.same_version(seen))
    if unseen:
        earlier.mind_gap(turn, seen)
    s.behind = s.behind and told
    if seen is None:
        _vanished(turn)
    elif s.seen is None or unseen or not s.seen.same_record(seen):
        if named.anew(turn, seen, unseen=unseen):
            named.to_lead(turn, seen, told=told)
        _changed(turn, s.seen, seen, told=told)
    else:
        s.seen = seen  # another version of the same record, by a label: the wait goes on
    s.known, s.spent = True, False


def _begins(before: Observed | None, seen: Observed | None) -> bool:
    """Whether a watch tells for the first time of what was missing: it began some time after that was read."""
    if before is None or before.beside is None or seen is None or seen.beside is None:
        return before is None
    return any(was is None and part for was, part in zip(before.beside, seen.beside, strict=True))


def _changed(turn: Transition, before: Observed | None, seen: Observed, *, told: bool) -> None:
    s, holder = turn.s, seen.record.holder
    s.seen, s.seen_at = seen, turn.now.boot
    if seen.given:
        earlier.all_dead(turn)
    s.turn_at = _turn_at(turn, seen, claimed=s.wholly_mine(before))
    if s.mine(seen):
        s.gone_wait = max(s.gone_wait, s.me.timing.lease_duration)  # somebody may take it from us, and be deleted
        return
    s.doubt = False  # nothing written over what was there before can come through any more
    s.claims = earlier.claims_left(turn, before, seen)
    earlier.mind_holder(turn, before, seen, told=told)
    s.stumbles = 0 if holder else s.stumbles
    given = s.given(seen)
    if holder and not given and not s.named(seen):
        s.losses += s.known and holder not in {s.leader, UNKNOWN}
        turn.observe_leader(holder)
        _mind_duration(turn, seen)
    if given or not (s.me.live and before and before.record.holder):
        return
    if not (named.by_control_plane(turn, before, seen) or _parted(turn, before, seen)):
        alive, did = (holder, "renew") if holder else (before.record.holder, "release it")
        s.verdict = e.AcquireFailed(
            f"held by {called(alive)[:256]}, which is alive: it was seen to {did}", NOT_ACQUIRED
        )
        release.close(turn, release=True)


def _parted(turn: Transition, before: Observed, seen: Observed) -> bool:
    """Whether a change is of hands that took a record away, or of one's own write that came half through: no life.

    Whoever else took the other half renews it, which is a sign of life. A label is none.
    """
    if seen.beside is None:
        return seen.record.unwritten or before.same_record(seen)
    changed = seen.changed_halves(before)
    return all(half is None or half[0].unwritten or turn.s.has(half) for half in changed)


def _vanished(turn: Transition) -> None:
    """Gone is not free: its holder may still run, and creates it anew. Only who never saw it creates at once."""
    s, now = turn.s, turn.now
    if s.known and s.seen is None and not s.spent:
        return  # as before: the wait goes on
    s.seen, s.seen_at, s.turn_at = None, now.boot, now.boot + s.gone_wait + now.luck * spread(turn)
    if s.me.coordinated:
        s.turn_at = inf  # the control plane creates it
    elif s.gone_wait:
        turn.do(
            e.Report(
                "waiting_for_previous_leader",
                f"the lock object is gone; its holder may still run: waiting {text(round(s.gone_wait, 1))}",
            )
        )


def _mind_duration(turn: Transition, seen: Observed) -> None:
    """Once for each shorter one: a holder that renews says the same again and again."""
    s, mine, theirs = turn.s, turn.s.me.timing.lease_duration, seen.record.duration
    if s.me.rivals_expire and seen.record.holder != UNKNOWN and theirs < (s.shortest or mine):
        s.shortest = theirs
        turn.do(
            e.Report(
                "lease_duration_mismatch",
                f"{seen.record.holder[:256]} leads with a lease duration of {text(theirs)}, less than our {text(mine)}:"
                f" a client-go before 0.27 would take our lock too early; give --lease-duration {text(theirs)}",
            )
        )


# --- 3. whose turn it is, and when


def _turn_at(turn: Transition, seen: Observed, *, claimed: bool) -> float:
    s, now, record = turn.s, turn.now, seen.record
    if seen.fault:
        turn.do(e.Report("lock_malformed", f"the lock counts as held: {seen.fault}"))
        return inf
    mine = s.wholly_mine(seen)
    if mine and not claimed:
        earlier.mind_creation(turn, seen)
    if named.unwanted(turn, seen):
        return max(s.ready_at, now.boot)
    if mine:
        return min(max(s.ready_at, now.boot), now.boot + s.me.timing.retry_period)
    if s.named(seen) or s.given(seen):
        return now.boot
    if s.me.coordinated and record.holder != s.me.identity:
        return inf  # the control plane names the next
    held = earlier.longest(turn, seen) if record.holder or seen.torn else 0
    if record.unwritten and s.gone_wait and not seen.torn:
        held = s.gone_wait  # deleted, and created anew by who is no candidate: gone is not free then either
        turn.do(
            e.Report(
                "waiting_for_previous_leader",
                f"the lock was created anew; its holder may still run: waiting {text(round(held, 1))}",
            )
        )
    elif held:  # the control plane may have named somebody over one who runs for longer
        held = max(held, s.held_until - now.boot, s.gone_wait if seen.torn else 0.0)
    return now.boot + held + now.luck * spread(turn)


def spread(turn: Transition) -> float:
    """Seconds over which to spread one's tries among rivals: none until races are lost in a row, as in a crowd.

    A race won ends it, so that among a few there is nearly always one that does not wait. In a crowd of a hundred the
    first to try does so after about 10 ms, and only who tries before the news of it arrives loses a request.
    """
    return 0.0 if turn.s.losses < CROWD else SPREAD


# --- 4. update exactly what was seen, or create what was seen to be missing


def _take(turn: Transition) -> None:
    s, now, base = turn.s, turn.now.boot, turn.s.seen
    if base and named.unwanted(turn, base):
        release.give_back(turn, base, s.me.request_timeout)
        return
    s.renewed = renewed = max(turn.fresh_time(base.record.renewed if base else None), turn.fresh_time(s.renewed))
    anew = base is None or (base.gone and base.record.unwritten)  # a pair of which nothing is left is created anew
    acquired, transitions = turn.wall, base.record.next_transition if base and not anew else 0
    if base and (s.mine(base) or s.given(base)):  # the write that made it so has counted its transition
        acquired, transitions = base.record.acquired or acquired, base.record.transitions
    record = Record(s.me.identity, s.me.timing.lease_duration, acquired, renewed, transitions)
    s.claims = s.lately(now) | {(renewed, now)}
    turn.send(e.Write(s.serial, s.me.request_timeout, base, record, s.incarnation))


def wrote(turn: Transition, write: e.Write, seen: Observed) -> None:
    """The lock is ours. If that may have changed since, or it is late, or a claim, a fresh write must show it first."""
    s = turn.s
    if not write.record.holder:
        if not s.news:
            _observe(turn, seen)
            _look_on(turn)
        return
    overtaken = s.news and not (s.seen and s.mine(s.seen) and not s.seen.gone)
    created = (write.base is None or write.base.gone) and s.gone_wait
    if overtaken or created or not s.ready_at <= turn.now.boot < s.me.timing.stop_at(s.sent_at):
        _observe(turn, seen)
        s.read_at = s.read_at if s.watching else turn.now.boot + look.SILENCE
        return
    turn.unwatch()
    s.phase, s.losses, s.doubt = Phase.LEADING, 0, False
    s.gone_wait, s.held_until = s.me.timing.lease_duration, 0.0  # all before are dead
    renew.count(turn, seen)
    turn.do(e.Acquired(s.stop_at, s.kill_at, seen.version, s.transitions, s.acquired))
    turn.observe_leader(s.me.identity)


def failed(turn: Transition, request: e.Get | e.Write, failure: Failure) -> None:
    """Somebody else was faster, or nobody knows what happened: look again before the next write."""
    s, now = turn.s, turn.now.boot
    turn.pause(failure)
    if s.me.twofold and isinstance(request, e.Write):  # the news may be of what this very write did to the first
        turn.unwatch()
        s.news, s.read_at = False, now  # and there will be no more
    if failure.kind is Kind.CONFLICT:
        s.gone_wait = max(s.gone_wait, s.me.timing.lease_duration)
    earlier.mind_half(turn, request, failure)
    if failure.held and isinstance(request, e.Write) and failure.kind in {Kind.DENIED, Kind.REFUSED}:
        turn.stay_away(ASIDE * s.gone_wait)  # half a write starts the others' wait anew: they could never have the lock
    if failure.kind is Kind.HOPELESS:
        s.verdict = e.AcquireFailed(failure.message, FAILED)
        release.close(turn, release=True)
    elif isinstance(request, e.Get):
        return
    elif failure.kind is Kind.CONFLICT:
        s.spent = not s.news
        if s.spent:  # the watch is about to tell; read only if it does not
            s.read_at = now + s.me.timing.retry_period if s.watching else now
    elif failure.kind in (Kind.UNREACHABLE, Kind.MISSING):
        s.doubt = s.doubt or failure.kind is Kind.UNREACHABLE
        s.read_at = s.read_at if s.news else now


# --- looking on


def got(turn: Transition, seen: Observed | None) -> None:
    """What was read; unless the watch has told something since, which is then followed further."""
    s = turn.s
    earlier.mind_claim(turn, seen)
    if not s.news:
        _observe(turn, seen)
        if s.phase is Phase.FOLLOWING:
            _look_on(turn)
    elif seen and seen.record.holder and not s.mine(seen):
        earlier.mind_holder(turn, None, seen)  # the watch may be behind, and end before it tells of this one
        s.behind = s.seen is None or not s.seen.same_version(seen)


def _look_on(turn: Transition) -> None:
    """Who has been named and renews finds out by that."""
    s = turn.s
    if s.me.coordinated and s.seen and s.mine(s.seen):
        s.read_at = turn.now.boot + look.SILENCE
    else:
        look.on(turn)


def saw(turn: Transition, seen: Observed | None) -> None:
    """A watch event. It only wakes: the conflict check of a write decides."""
    if look.told(turn):
        earlier.mind_claim(turn, seen)
        _observe(turn, seen, told=True)


# --- giving up


def _give_up(turn: Transition, why_not: Callable[[Transition], str]) -> None:
    s = turn.s
    if s.trouble or not s.known:
        s.verdict = e.AcquireFailed(s.trouble or SILENT, FAILED)
    elif s.seen and s.seen.fault and not s.me.lasting:  # by nobody who will give it up
        s.verdict = e.AcquireFailed(f"the lock counts as held: {s.seen.fault}", FAILED)
    else:
        s.verdict = e.AcquireFailed(why_not(turn), NOT_ACQUIRED)
    release.close(turn, release=True)


def _why_not(turn: Transition) -> str:
    s, seen = turn.s, turn.s.seen
    if s.me.coordinated and (seen is None or not seen.record.holder):
        return "the control plane has not named this candidate in time"
    if seen is None or not seen.record.holder or s.mine(seen) or s.given(seen) or s.named(seen):
        return "the lock could not be taken in time"
    age = ""
    if seen.record.renewed is not None:
        age = f", last renewed {text(max(0, (turn.now.wall - seen.record.renewed) // SECOND))} ago by its own clock"
    unchanged = text(round(turn.now.boot - s.seen_at, 1))
    return (
        f"held by {called(seen.record.holder)[:256]}{age}, watched unchanged for {unchanged};"
        f" a wait of more than {text(seen.record.duration)} takes it from a dead holder"
    )
