"""The latest runs of a lock's command, which the lock itself keeps: for ``--once``, ``--once-per`` and ``status``.

The last write of a term adds the run: the release, or with --no-release one more renewal. So no candidate acquires the
lock between the end of the term and its record. The next leader reads the runs in the answer to the acquiring write,
under the lock. They decide only whether a command is run again, never who leads.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LAST_RUN = "kleader/last-run"  # the annotation; each write of kleader's and of client-go's keeps it
# the transitions of the last term that ended in order: the runs of later terms are not known
LAST_ENDED = "kleader/last-ended"
MAX_RUNS = 10
MAX_HISTORY_BYTES = 8192
EXITED = "exited"  # the reason of a run that was not made to end
_MAX_READ_CHARS = 1 << 16
_MAX_NAME_CHARS = 253  # of identity, token and key
_MAX_REASON_CHARS = 63
_MAX_DETAIL_CHARS = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SECOND = 1_000_000


class Run(NamedTuple):
    """One run, from the command's start to the end of its last process; in microseconds since the epoch.

    ``started`` and ``ended`` are by the API server's clock, for a file lock by this machine's; None: not known.
    """

    identity: str
    token: str  # the fencing token: no two runs have the same
    key: str  # of --once; "" without
    started: int | None
    ended: int | None
    status: int  # kleader's exit status
    reason: str
    released: int | None = None  # the record's transitions where the release recorded this run: no later term has them
    detail: str = ""  # why its leader stepped down

    @property
    def succeeded(self) -> bool:
        """Whether the command ended by itself, with status 0."""
        return self.status == 0 and self.reason == EXITED

    @property
    def seconds(self) -> float | None:
        """How long it took; None if that is not known."""
        if self.started is None or self.ended is None:
            return None
        return (self.ended - self.started) / _SECOND


class Once(NamedTuple):
    """Which runs make another one needless."""

    key: str  # a run of this key; "": of no key
    per: float  # a run that began less than so many seconds ago; 0: of no age
    after_any: bool  # also one that failed, or was made to end

    def done_by(self, runs: Sequence[Run], now: int | None, since: int, ahead: int) -> Run | None:
        """The run that makes another one needless at ``now``; None if there is none.

        A run that ended after this candidate was started, ``since``, is young however long it took. ``ahead``: how far
        in the future a run may lie by another clock. Without a clock (None) no age counts.
        """
        for run in runs:
            if not (run.succeeded or self.after_any):
                continue
            if self.key and run.key == self.key:
                return run
            if not self.per or now is None or run.started is None or run.ended is None or run.ended > now + ahead:
                continue
            if now - run.started < self.per * _SECOND or run.ended >= since:
                return run
        return None


def read(text: object) -> list[Run]:
    """The runs in an annotation, newest first. What cannot be read is left out: then a command is run once more."""
    try:
        found = json.loads(text) if isinstance(text, str) and len(text) <= _MAX_READ_CHARS else None
    except (ValueError, RecursionError):
        return []
    return from_json(found)


def write(runs: Sequence[Run]) -> str:
    """The annotation."""
    return json.dumps(as_json(runs), separators=(",", ":"), ensure_ascii=False)


def add(runs: Sequence[Run], run: Run) -> list[Run]:
    """The runs with one more, within the bounds. The latest success stays, however many failures came after it."""
    known = [_bounded(run), *(earlier for earlier in runs if earlier.token != run.token)]
    success = next((i for i, earlier in enumerate(known) if earlier.succeeded), 0)
    chosen: list[int] = []
    for i in sorted(range(len(known)), key=lambda i: i not in {0, success}):
        if len(chosen) < MAX_RUNS and len(write([known[k] for k in (*chosen, i)]).encode()) <= MAX_HISTORY_BYTES:
            chosen.append(i)
    return [known[i] for i in sorted(chosen)]


def merge(primary: Sequence[Run], secondary: Sequence[Run]) -> list[Run]:
    """The runs that both objects of a multilock keep: one may have been created again, or be behind the other."""
    tokens = {run.token for run in primary}
    return [*primary, *(run for run in secondary if run.token not in tokens)]


def as_json(runs: Sequence[Run]) -> list[dict[str, object]]:
    """The same as values of JSON."""
    return [
        {
            "identity": run.identity,
            "token": run.token,
            "key": run.key,
            "startTime": None if run.started is None else timestamp(run.started),
            "endTime": None if run.ended is None else timestamp(run.ended),
            "status": run.status,
            "reason": run.reason,
            "released": run.released,
            "detail": run.detail or None,
        }
        for run in runs
    ]


def from_json(found: object) -> list[Run]:
    """The runs in a list of JSON; what is none is left out."""
    runs = [_run(entry) for entry in found[:MAX_RUNS]] if isinstance(found, list) else []
    return [run for run in runs if run]


def timestamp(instant: int) -> str:
    """RFC 3339, UTC, with six digits, as a Lease's times."""
    return (_EPOCH + timedelta(microseconds=instant)).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _run(found: object) -> Run | None:
    if not isinstance(found, dict):
        return None
    names = [found.get(name) for name in ("identity", "token", "key", "reason")]
    status = found.get("status")
    if not all(isinstance(name, str) for name in names) or not isinstance(status, int) or isinstance(status, bool):
        return None
    if not found["token"] or not 0 <= status <= 255:  # noqa: PLR2004 - of a process
        return None
    try:
        started, ended = (_instant(found.get(name)) for name in ("startTime", "endTime"))
    except (ValueError, OverflowError):
        return None
    known, detail = found.get("released"), found.get("detail")
    released = known if isinstance(known, int) and not isinstance(known, bool) else None
    run = Run(found["identity"], found["token"], found["key"], started, ended, status, found["reason"], released)
    return _bounded(run._replace(detail=detail if isinstance(detail, str) else ""))


def _bounded(run: Run) -> Run:
    identity, token, key = (_text(name)[:_MAX_NAME_CHARS] for name in (run.identity, run.token, run.key))
    reason, detail = _text(run.reason)[:_MAX_REASON_CHARS], _text(run.detail)[:_MAX_DETAIL_CHARS]
    return run._replace(identity=identity, token=token, key=key, reason=reason, detail=detail)


def _text(found: str) -> str:
    """What UTF-8 can carry: JSON may name half a character."""
    return found.encode(errors="replace").decode()


def _instant(text: object) -> int | None:
    """ValueError: it is no time, or not of this form."""
    if text is None:
        return None
    if not isinstance(text, str) or not text.isascii() or not text.endswith("Z"):
        raise ValueError(text)
    moment = datetime.fromisoformat(f"{text[:-1]}+00:00")
    return (moment - _EPOCH) // timedelta(microseconds=1)
