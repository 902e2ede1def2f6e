"""The guards that live in the step function, each of which can be taken away: a test must fail without it."""

from __future__ import annotations

import inspect
import textwrap
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kleader.election import acquire, earlier, elector, for_life, look, named, release, renew, transition
from kleader.election.events import Failure, Kind, Observed
from kleader.election.state import State, anew
from kleader.election.transition import Transition
from kleader.locks.multilock import MultiLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import ModuleType


@contextmanager
def rewritten(module: ModuleType, old: str, new: str) -> Iterator[None]:
    """The module as if its source had said ``new`` where it says ``old``."""
    assert module.__file__
    source, saved = Path(module.__file__).read_text(), dict(vars(module))
    assert source.count(old) == 1, f"{module.__name__} does not say {old!r} just once: keep this list up to date"
    exec(compile(source.replace(old, new), module.__file__, "exec"), vars(module))  # noqa: S102 - a mutant
    try:
        yield
    finally:
        vars(module).update(saved)


@contextmanager
def replaced(targets: tuple[Any, ...], name: str, value: object) -> Iterator[None]:
    """Something else under a name."""
    saved = [getattr(target, name) for target in targets]
    for target in targets:
        setattr(target, name, value)
    try:
        yield
    finally:
        for target, was in zip(targets, saved, strict=True):
            setattr(target, name, was)


def rewritten_method(owner: type, name: str, old: str, new: str) -> AbstractContextManager[None]:
    """A class as if the source of one method or property had said ``new`` where it says ``old``."""
    method: Any = getattr(owner, name)
    method = method.fget if isinstance(method, property) else method
    source, made = textwrap.dedent(inspect.getsource(method)), {**method.__globals__}
    assert source.count(old) == 1, f"{owner.__name__}.{name} does not say {old!r} just once: keep this list up to date"
    exec("from __future__ import annotations\n" + source.replace(old, new), made)  # noqa: S102 - a mutant
    return replaced((owner,), name, made[name])


_PAUSE = Transition.pause


def _forgetful(turn: Transition, failure: Failure) -> None:
    turn.s.call_at = 0
    _PAUSE(turn, failure)


#: What is taken away → how.
GUARDS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "a term counts from before its request": lambda: rewritten(
        renew, "s.t0, s.call_at, s.stumbles = s.sent_at,", "s.t0, s.call_at, s.stumbles = turn.now.boot,"
    ),
    "another's record counts from after its answer": lambda: rewritten(
        acquire, "return now.boot + held", "return turn.s.sent_at + held"
    ),
    "a holder's own duration is waited out": lambda: rewritten(
        acquire, "held = earlier.longest(turn, seen)", "held = min(5, earlier.longest(turn, seen))"
    ),
    "who was named over a holder does not shorten its time": lambda: rewritten(
        acquire, "s.held_until - now.boot, ", ""
    ),
    "nor, when the lock is gone, the wait for it": lambda: rewritten(earlier, ", s.held_until - turn.now.boot)", ")"),
    "who took a lock is known to a new candidacy": lambda: rewritten(
        renew, "        earlier.mind_holder(turn, None, seen)  # a new candidacy may not see it any more\n", ""
    ),
    "who has the lock after a release is known to a new candidacy": lambda: rewritten(
        release, "        earlier.mind_holder(turn, None, seen)  # a new candidacy may not see it any more\n", ""
    ),
    "what was created without an answer may have been taken": lambda: rewritten(
        acquire, "if s.doubt and not (seen and s.mine(seen)):", "if s.doubt and seen and not s.mine(seen):"
    ),
    "also where one without a record took its place": lambda: rewritten(
        acquire, "not (seen and s.mine(seen)):", "not (seen and (s.mine(seen) or seen.record.unwritten)):"
    ),
    "or hands put a shorter record over who took it": lambda: rewritten(
        acquire, "not (seen and s.mine(seen)):", "not (seen and not seen.record.unwritten):"
    ),
    "half a lock that was read is held, whatever another reading shows": lambda: rewritten(
        earlier, "s.held_until = max(s.held_until, turn.now.boot + failure.held * isinstance(request, e.Get))", "pass"
    ),
    "a lock created anew without a record is not free": lambda: rewritten(
        acquire, "if record.unwritten and s.gone_wait and not seen.torn:", "if False:"
    ),
    "who renewed unseen is waited for": lambda: replaced((earlier,), "mind_gap", lambda _turn, _seen: None),
    "a wait for who renewed unseen comes to an end": lambda: rewritten(
        earlier, "unseen = max(longest(turn, before), s.me.timing.lease_duration, ", "unseen = max(unseen, "
    ),
    "who had a lock without a record unseen is waited for": lambda: rewritten(
        earlier, "    unseen = s.gone_wait\n", "    unseen = 0.0\n"
    ),
    "one like this candidate that was never seen is waited for": lambda: rewritten(
        earlier, "max(longest(turn, before), s.me.timing.lease_duration, ", "max(longest(turn, before), "
    ),
    "the same record in another version was written anew": lambda: replaced(
        (Observed,), "same_version", Observed.same_record
    ),
    "the second of a pair has a version too": lambda: rewritten_method(
        Observed, "same_version", "(other.version, other.second)", "(other.version, self.second)"
    ),
    "a label is no sign of life": lambda: rewritten(acquire, " or before.same_record(seen)", ""),
    "a lock created anew without a record was not given up": lambda: rewritten_method(
        Observed, "given_up", "self.record.unwritten or ", ""
    ),
    "a release told late is of before": lambda: rewritten(earlier, "if not turn.s.behind:", "if True:"),
    "one named, told late, is of before": lambda: rewritten(acquire, "earlier.all_dead(turn)", "s.held_until = 0.0"),
    "a watch is behind what was read beside it": lambda: rewritten(
        acquire, "s.behind = s.seen is None or not s.seen.same_version(seen)", "pass"
    ),
    "a watch may begin behind": lambda: rewritten(
        look, "s.behind = s.gone_wait > 0 and (s.seen is None or", "s.behind = bool(s.seen) and ("
    ),
    "half of a watch may begin behind": lambda: rewritten(
        look, " or (s.me.twofold and None in (s.seen.beside or ()))", ""
    ),
    "one's own record was there too": lambda: rewritten(
        acquire,
        "        s.gone_wait = max(s.gone_wait, s.me.timing.lease_duration)  # somebody may take it",
        "        # it",
    ),
    "half a claim hides who has the other": lambda: rewritten(
        earlier, "seen.given or s.wholly_mine(seen)", "seen.given or s.mine(seen)"
    ),
    "a claim or a naming of one's own shows nobody's duration": lambda: rewritten(
        earlier, " and not (s.mine(before) or s.named(before))", ""
    ),
    "who renewed unseen is waited for though the lock is gone then": lambda: rewritten(
        earlier, "s.gone_wait, s.held_until = max(s.gone_wait, unseen), max(", "s.held_until = max("
    ),
    "a claim that is read in another version is no right to lead": lambda: rewritten(
        earlier, "if part and version != was", "if part and was is None"
    ),
    "a claim is one for as long as a term by it": lambda: rewritten_method(
        State, "lately", " if now < self.me.timing.kill_at(each[1])", ""
    ),
    "a leader that reads half a lock knows it then": lambda: rewritten(
        renew, "    earlier.mind_half(turn, request, failure)  # for a new candidacy\n", ""
    ),
    "a claim is none any more when another was seen": lambda: rewritten(
        acquire, "    s.claims = earlier.claims_left(turn, before, seen)\n", ""
    ),
    "a claim is the very one that was written": lambda: rewritten(
        earlier, "if not _anew(turn, seen) <= {renewed for renewed, _ in s.lately(now)}:", "if not s.lately(now):"
    ),
    "who renewed unseen is waited for by who reads its claim again": lambda: rewritten(
        earlier, "max(s.ready_at, turn.now.boot + s.gone_wait)", "max(s.ready_at, s.held_until)"
    ),
    "a claim that is restored is not released": lambda: rewritten(
        release, "        earlier.mind_claim(turn, seen)\n", ""
    ),
    "half a release was done": lambda: rewritten(release, " or failure.held  # half of it, at least", ""),
    "what is told half by half is one's own": lambda: rewritten(
        acquire, "earlier.claims_left(turn, before, seen)", "frozenset()"
    ),
    "who had half a lock since is another": lambda: rewritten(
        earlier, "all(s.has(half) for half in seen.changed_halves(before))", "True"
    ),
    "half a watch that begins late leaves something out": lambda: rewritten(
        acquire, "any(was is None and part for was, part in zip(before.beside, seen.beside, strict=True))", "False"
    ),
    "who takes half a lock was not named": lambda: rewritten(earlier, "told and not s.me.twofold and", "told and"),
    "who was read behind the watch's back is known at the next gap": lambda: rewritten(
        earlier, ", unseen if s.behind else 0.0)", ")"
    ),
    "a pair: one that cannot be read is held as before": lambda: rewritten_method(
        MultiLock, "_remember", ", self._known[i] if part.fault else 0", ""
    ),
    "half a claim that is restored is no right to lead": lambda: rewritten(
        earlier, "if s.me.twofold and seen.beside else", "if False else"
    ),
    "what was given back is no claim": lambda: rewritten(release, "turn.s.claims = frozenset()", "pass"),
    "a release without an answer may have been done": lambda: rewritten(release, "s.left and not (", "False and not ("),
    "who saw nobody waits for one like itself": lambda: rewritten(
        earlier, "        s.gone_wait = max(s.gone_wait, s.me.timing.lease_duration)  # one like", "        # one like"
    ),
    "no two claims have one renewTime": lambda: rewritten(acquire, ", turn.fresh_time(s.renewed))", ", 0)"),
    "what one has just written is one's own": lambda: rewritten(acquire, "| {(renewed, now)}", ""),
    "renewals of half a lock move the end": lambda: rewritten(
        earlier, "(before.record, before.beside) == (record, seen.beside)", "before.record == record"
    ),
    "who was read behind the watch's back is known": lambda: rewritten(
        acquire, "elif seen and seen.record.holder and not s.mine(seen):", "elif False:"
    ),
    "half a lock is held for as long as any was": lambda: rewritten(
        acquire, ", s.gone_wait if seen.torn else 0.0)", ")"
    ),
    "half a lock that is gone was not given up": lambda: rewritten_method(Observed, "given_up", " or self.gone)", ")"),
    "a write counts only with a new version": lambda: rewritten(
        elector, "moved = write.base is None or seen.version != write.base.version", "moved = True"
    ),
    "a write counts only if its answer shows it": lambda: rewritten(
        elector, "return shown and moved and", "return moved and"
    ),
    "an answer belongs to its request": lambda: rewritten(elector, " or s.pending.serial != event.request.serial", ""),
    "a renewTime is a second after the last": lambda: replaced(
        (Transition,), "fresh_time", lambda turn, _previous: turn.now.wall
    ),
    "a lost answer is followed by a fresh write": lambda: rewritten(
        acquire,
        "    if not s.news:\n        _observe(turn, seen)\n",
        "    if seen and s.mine(seen):\n"
        "        return wrote(turn, e.Write(0, 0, seen, seen.record, s.incarnation), seen)\n"
        "    if not s.news:\n        _observe(turn, seen)\n",
    ),
    "a late answer starts nothing": lambda: rewritten(
        acquire, "not s.ready_at <= turn.now.boot < s.me.timing.stop_at(s.sent_at)", "turn.now.boot < s.ready_at"
    ),
    "an overtaken answer starts nothing": lambda: rewritten(acquire, "if overtaken or ", "if "),
    "mine means the incarnation too": lambda: replaced(
        (State,), "mine", lambda state, seen: seen.record.holder == state.me.identity
    ),
    "gone is not free": lambda: rewritten(acquire, "now.boot + s.gone_wait +", "now.boot +"),
    "a lock created anew is a claim at first": lambda: rewritten(
        acquire, "if overtaken or created or ", "if overtaken or "
    ),
    "half a lock created anew is a claim at first": lambda: rewritten(
        acquire, "(write.base is None or write.base.gone) and", "write.base is None and"
    ),
    "half a lock found created anew is a claim at first": lambda: rewritten(earlier, "seen.created or ", ""),
    "half a lock that was deleted under the write is another": lambda: rewritten(acquire, " and not s.seen.gone)", ")"),
    "half a claim created anew is another": lambda: rewritten(
        acquire, "s.wholly_mine(before)", "before is not None and s.mine(before)"
    ),
    "a lock found created anew is a claim at first": lambda: replaced(
        (earlier,), "mind_creation", lambda _turn, _seen: None
    ),
    "gone is not free to a new candidacy": lambda: replaced(
        (transition,), "anew", lambda s, incarnation, call_at: replace(anew(s, incarnation, call_at), gone_wait=0.0)
    ),
    "gone is not free to who lost a race": lambda: rewritten(
        acquire,
        "        s.gone_wait = max(s.gone_wait, s.me.timing.lease_duration)\n    earlier",
        "        pass\n    earlier",
    ),
    "the leader recreates what was deleted": lambda: rewritten(renew, "_write(turn, None)", "pass"),
    "a label does not start the wait anew": lambda: replaced((Observed,), "same_record", lambda one, two: one == two),
    "a change starts the wait anew": lambda: replaced(
        (Observed,), "same_record", lambda one, two: one.record.holder == two.record.holder
    ),
    "a malformed record is held": lambda: rewritten(
        acquire, "    if seen.fault:\n        turn.do", "    if False:\n        turn.do"
    ),
    "who leads gives up at stop_at": lambda: rewritten(renew, "if now >= s.stop_at:", "if now >= s.stop_at + 2:"),
    "no grace when somebody else leads": lambda: rewritten(
        renew, '{_whom(seen, s.me.identity)}", kill_now=True)', '{_whom(seen, s.me.identity)}", kill_now=False)'
    ),
    "who leads looks whose the lock is": lambda: rewritten(renew, "elif not s.mine(seen):", "elif False:"),
    "who leads knows its own writes": lambda: rewritten(
        renew, "elif s.sent is not None and seen.record.renewed not in s.sent:", "elif False:"
    ),
    "only one's own is released": lambda: rewritten(release, "elif s.mine(seen):", "elif True:"),
    "what was lost is not released": lambda: rewritten(
        release,
        "elif leading or (s.phase is Phase.FOLLOWING",
        "elif leading or s.phase is Phase.LOST or (s.phase is Phase.FOLLOWING",
    ),
    "what may be one's own is released": lambda: rewritten(
        release, "maybe_ours = s.doubt or", "maybe_ours = False and"
    ),
    "a release has its time": lambda: rewritten(
        release, "s.release_by = min(now + patience, s.kill_at if leading else inf)", "s.release_by = inf"
    ),
    "a request ends with the renew deadline": lambda: rewritten(
        renew, "timeout = min(s.me.request_timeout, s.stop_at - turn.now.boot)", "timeout = s.me.request_timeout"
    ),
    "a failure is followed by a pause": lambda: replaced((Transition,), "pause", lambda _turn, _failure: None),
    "a throttling is honoured": lambda: replaced(
        (Transition,),
        "pause",
        lambda turn, failure: _PAUSE(turn, failure._replace(kind=Kind.CONFLICT, retry_after=0.0)),
    ),
    "a silent watch is looked after": lambda: rewritten(look, "SILENCE = 300.0", "SILENCE = 1e9"),
    "a short-lived watch means polling": lambda: rewritten(
        look, " and now >= s.watched_at + s.me.timing.retry_period", ""
    ),
    "a watch that could not begin means polling": lambda: rewritten(look, "(event.begun and ", "("),
    "a watch's trouble is told once": lambda: rewritten(look, "if not s.told:", "if True:"),
    "a throttling is honoured for a lease duration at most": lambda: rewritten_method(
        Transition, "retry_after", "min(seconds, self.s.me.timing.lease_duration / _MOST_JITTERED)", "seconds"
    ),
    "a throttled watch is honoured": lambda: rewritten(look, "if event.retry_after:", "if False:"),
    "a throttled watch is honoured whatever else fails": lambda: replaced((Transition,), "pause", _forgetful),
    "a crowd spreads": lambda: rewritten(acquire, "CROWD = 4", "CROWD = 1000"),
    "a few do not wait for each other": lambda: rewritten(acquire, "CROWD = 4", "CROWD = 0"),
    "who is named waits for who led before": lambda: rewritten(named, "max(s.ready_at, ready)", "0.0"),
    "who is named waits for all who led before": lambda: rewritten(
        earlier, "max(s.held_until, turn.now.boot + longest(turn, seen))", "turn.now.boot + longest(turn, seen)"
    ),
    "who is named waits for who led before one that was named": lambda: rewritten(
        earlier, "return duration if", "return duration if True or"
    ),
    "what was not told leaves something out": lambda: rewritten(named, "told and before.given_up", "before.given_up"),
    "a naming is known by its missing acquireTime": lambda: rewritten_method(State, "mine", " and not named", ""),
    "a malformed record hides nobody": lambda: rewritten_method(Observed, "given_up", "self.fault or ", ""),
    "over a malformed record is not over an empty holder": lambda: rewritten(
        named, "told and before.given_up", "told and not before.record.holder"
    ),
    "a lock created for us is free if nobody has written it": lambda: rewritten(named, " and seen.untouched:", ":"),
    "a lock created for us is free if it was missing": lambda: rewritten(
        named, "told and s.known and before is None and ", ""
    ),
    "a lock created for us is free if the watch tells so": lambda: rewritten(named, "told and s.known", "s.known"),
    "a predecessor's claim waits anew": lambda: replaced((earlier,), "mind_claim", lambda _turn, _seen: None),
    "a naming that was read waits anew": lambda: rewritten(named, "unseen or ", ""),
    "a claim of long ago says nothing about a creation": lambda: rewritten(
        release, "s.wholly_mine(s.seen)", "s.ready_at"
    ),
    "half a lock that was deleted under the last write is no more than a claim": lambda: rewritten(
        release, "s.wholly_mine(s.seen)", "(s.seen and s.mine(s.seen))"
    ),
    "a pair: half a read may have seen its leader": lambda: rewritten(
        earlier, "s.gone_wait = max(s.gone_wait, failure.held, s.me.timing.lease_duration)", "pass"
    ),
    "a pair: what was read of one is known where the other was not": lambda: rewritten_method(
        MultiLock, "get", "self._remember(_Pair(first, None))", ""
    ),
    "a pair: one created late without an answer may have been another's": lambda: rewritten_method(
        MultiLock,
        "write",
        "self._shown[i].add(None)",
        "error.failure.kind is Kind.UNREACHABLE or self._shown[i].add(None)",
    ),
    "a pair: half a read tells for how long": lambda: rewritten_method(
        MultiLock, "get", "self._known[0] if first else 0", "0"
    ),
    "a pair: client-go leaves the incarnation where it is": lambda: rewritten_method(
        MultiLock,
        "_both",
        "shown - {(part.record.holder, part.incarnation)}",
        "[each for each in shown if not each or each[1] != part.incarnation]",
    ),
    "a claim is not released": lambda: rewritten(
        release, "s.seen.torn or (not s.led and now < s.ready_at)", "s.seen.torn"
    ),
    "a pair of which one is missing is not released": lambda: rewritten(release, "s.seen.torn or ", ""),
    "a claim is given back to who is preferred": lambda: replaced((named,), "unwanted", lambda _turn, _seen: False),
    "a claim is given back when all before must have ended": lambda: rewritten(
        acquire, "return max(s.ready_at, now.boot)", "return now.boot"
    ),
    "the answer to what was given back hides no news": lambda: rewritten(
        acquire, "if not s.news:\n            _observe", "if True:\n            _observe"
    ),
    "a leader yields to who is preferred": lambda: rewritten(
        renew, "        _mind_preference(turn, seen)\n        mind_request", "        mind_request"
    ),
    "also where its lock was created anew for it": lambda: rewritten(
        renew, "        _mind_preference(turn, seen)\n        if", "        if"
    ),
    "a leader keeps a lock created anew for it": lambda: rewritten(renew, "elif seen.untouched and", "elif False and"),
    "a leader keeps none but a lock created anew": lambda: rewritten(renew, "elif seen.untouched and", "elif"),
    "a naming is no sign of life": lambda: replaced((named,), "by_control_plane", lambda *_: False),
    "a request is for one term alone": lambda: rewritten(
        renew, "if (request.holder, request.incarnation) != (seen.record.holder, s.incarnation):", "if False:"
    ),
    "a request to hand the lock to who has it is none": lambda: rewritten(
        renew, "elif request.to in {s.me.identity, seen.record.holder}:", "elif False:"
    ),
    "who cannot name the next leader names none": lambda: rewritten(
        renew, "elif request.to and (s.me.coordinated or s.me.lasting):", "elif False:"
    ),
    "a transfer goes by no empty holder": lambda: rewritten(
        release, "(_give if s.to else give_back)(turn,", "give_back(turn,"
    ),
    "a transfer without an answer may have happened": lambda: rewritten(
        release, "(s.parted or s.to) and seen.record.holder == s.to", 's.parted and seen.record.holder == ""'
    ),
    "a claim is given to nobody": lambda: rewritten(
        release, 's.led, s.to = leading, to if leading else ""', "s.led, s.to = leading, to"
    ),
    "who was asked to end stands aside": lambda: rewritten_method(
        Transition, "begin_anew", "self.s.me.timing.lease_duration if aside else 0.0", "0.0"
    ),
    "one's own name alone gives no right to write": lambda: rewritten_method(
        State, "given", "named = seen.given and seen.record", "named = seen.record"
    ),
    "what was given and taken is another's": lambda: rewritten_method(
        State, "given", " and not seen.incarnation\n", "\n"
    ),
    "half a pair was given to nobody": lambda: rewritten_method(State, "given", "seen.torn or ", ""),
    "who was named writes before it leads": lambda: rewritten(
        acquire,
        "    if not s.news:\n        _observe(turn, seen)\n        if",
        "    if seen and s.given(seen):\n"
        "        return wrote(turn, e.Write(0, 0, seen, seen.record, s.incarnation), seen)\n"
        "    if not s.news:\n        _observe(turn, seen)\n        if",
    ),
    "to be named is no sign of a live leader": lambda: rewritten(
        acquire, "if given or not (s.me.live", "if not (s.me.live"
    ),
    "a lock that is not given any more starts the wait anew": lambda: replaced(
        (Observed,), "same_record", lambda one, two: one._told == replace(two, given=one.given)._told
    ),
    "a pair: both answers must show the write": lambda: rewritten_method(
        MultiLock, "write", "if not shown or (before and seen.version == before.version):", "if False:"
    ),
    "a pair: one that was created is known, whatever becomes of the other": lambda: rewritten_method(
        MultiLock, "write", "self._known[i] = self._known[i] or self._least  # it", "pass  # it"
    ),
    "a pair: one that is created has no transitions": lambda: rewritten_method(
        MultiLock, "write", "replace(record, transitions=0)", "record"
    ),
    "a pair: one that was one's own and went is another's": lambda: rewritten_method(
        MultiLock, "_both", "if is_missed:", "if False:"
    ),
    "a pair: a conflict at a creation shows that it is there": lambda: rewritten_method(
        MultiLock, "write", "in {Kind.CONFLICT, Kind.UNREACHABLE}:", "is Kind.UNREACHABLE:"
    ),
    "a pair: a creation without an answer may have been done": lambda: rewritten_method(
        MultiLock, "write", "in {Kind.CONFLICT, Kind.UNREACHABLE}:", "is Kind.CONFLICT:"
    ),
    "a pair: one that is created anew without a record is missed": lambda: rewritten_method(
        MultiLock, "_both", "self._missed(i, part) for", "self._known[i] and not part for"
    ),
    "a pair: one without a record is created anew": lambda: rewritten_method(
        MultiLock, "write", "before is None or self._missed(i, before)", "before is None"
    ),
    "a pair: one without a record says nothing of who had it": lambda: rewritten_method(
        MultiLock, "_remember", "if part and _written(part):", "if part:"
    ),
    "a pair: both must have one holder": lambda: rewritten_method(
        MultiLock, "_both", "agreed = len({record.holder for record in records}) == 1", "agreed = True"
    ),
    "a pair: holders that differ are held for the longest": lambda: rewritten_method(
        MultiLock, "_both", "max(durations)", "durations[0]"
    ),
    "a pair: a change of either starts the wait anew": lambda: rewritten_method(
        MultiLock, "_both", "tuple(part and (part.record, part.incarnation) for part in pair)", "None"
    ),
    "a pair: one that was there is missed": lambda: rewritten_method(
        MultiLock, "_both", "gone = any(missed)", "gone = False"
    ),
    "a pair: a successor misses what it has not seen": lambda: rewritten_method(
        MultiLock, "__init__", "[held] * 2", "[0] * 2"
    ),
    "a pair: what a failed write did is no news": lambda: rewritten(
        acquire, "if s.me.twofold and isinstance(request, e.Write):", "if False:"
    ),
    "for life: the lock is its owner's": lambda: rewritten(
        for_life, "if seen.ours or seen.dead or not", "if True or not"
    ),
    "for life: what nobody understands is held": lambda: rewritten(
        for_life, "    if seen.fault:\n        turn.do", "    if False:\n        turn.do"
    ),
    "for life: a lock that is gone is lost": lambda: rewritten(
        for_life,
        "    if seen is None:\n        renew.lose",
        "    if seen is None:\n        s.seen = None\n    elif False:\n        renew.lose",
    ),
    "for life: another incarnation's lock is lost": lambda: rewritten(
        for_life, "elif not s.mine(seen):", "elif False:"
    ),
    "for life: who has no owner has lost": lambda: rewritten(for_life, "elif seen.dead:", "elif False:"),
    "for life: no grace": lambda: rewritten(
        for_life, '{_whose(seen)}", kill_now=True)', '{_whose(seen)}", kill_now=False)'
    ),
    "for life: a watch begins no term": lambda: rewritten(
        for_life,
        "        s.read_at = now.boot\n        return inf",
        "        _lead(turn, seen)\n        return inf",
    ),
    "for life: an overtaken answer begins no term": lambda: rewritten(
        for_life, "if s.news and not (s.seen and s.mine(s.seen)):", "if False:"
    ),
    "for life: what cannot be seen is not lost": lambda: rewritten(
        for_life, "elif failure.kind is Kind.HOPELESS:", "elif failure.kind is not Kind.CONFLICT:"
    ),
    "for life: a supervisor that sleeps is killed": lambda: rewritten(
        elector, "kill_now=turn.s.me.lasting)", "kill_now=False)"
    ),
    "for life: what never led is given up": lambda: replaced((for_life,), "owes", lambda _state: False),
}
