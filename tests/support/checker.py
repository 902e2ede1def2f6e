"""Reads the witness's log and tells every overlap: two terms whose processes were alive at the same time.

What each record proves, on one clock (CLOCK_BOOTTIME, nanoseconds):

- A process was alive from `born` at the latest (its fork, known to one kernel tick) to its last record at the
  earliest. A SIGKILL leaves no `end`, so the true death is up to a beat later: what lies between, the flock proves.
- The flock on LOG.lock is held by a main process and all its descendants, and the kernel takes it from each as it
  dies. A `clash` proves that somebody of an earlier term was alive at that instant, stopped or silent as he may be.
- A rival's command (`--rival`) is judged by its start alone: what lives on beside those that start after it is the
  rival's own fault.

Two things escape. A process that was KILLed (no `end`) between another's birth and that one's flock, which lie the
start of a bare interpreter apart: with a command that is slow to die (`--term-delay`, `--ignore-term`, `--descendant`)
that window does not matter. And a process killed before its first record: the candidates' own logs name its pid.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.processes import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = Path(__file__).with_name("witness.py")
RECORD = 256
MS = 1_000_000


class WitnessError(AssertionError):
    """An overlap, or what was awaited did not come; the text ends with the log's story."""


@dataclass
class Life:
    """One process: alive from `born` to `last` in any case."""

    key: str
    parent: str | None  # the main process's key, for a descendant
    pid: int
    token: str
    identity: str
    born: int
    last: int = 0
    rival: bool = False  # its candidate promises nothing
    clash: int | None = None  # when it found an earlier one alive
    end: int | None = None
    beats: int = 0

    @property
    def ended(self) -> bool:
        """It wrote its own end; False also for one that was killed."""
        return self.end is not None


@dataclass
class Term:
    """A main process and its descendants."""

    main: Life
    descendants: list[Life] = field(default_factory=list)

    @property
    def pid(self) -> int:
        return self.main.pid

    @property
    def token(self) -> str:
        return self.main.token

    @property
    def identity(self) -> str:
        return self.main.identity

    @property
    def born(self) -> int:
        return self.main.born

    @property
    def last(self) -> int:
        """The last instant at which any of its processes was certainly alive."""
        return max(life.last for life in (self.main, *self.descendants))


@dataclass(frozen=True)
class Overlap:
    """`later` was alive while `earlier` was: for at least `ns` where both wrote, None where the flock alone tells."""

    earlier: Term | None
    later: Term
    ns: int | None

    def __str__(self) -> str:
        who = f"pid {self.earlier.pid} ({self.earlier.identity})" if self.earlier else "somebody"
        how = "the flock was held" if self.ns is None else f"for at least {self.ns / MS:.1f} ms"
        return f"{who} was alive beside pid {self.later.pid} ({self.later.identity}): {how}"


class Witness:
    """One log, and the command that writes it. Reads on as it grows; every question looks at the log anew.

    ``writable`` tells whether a process is left that may write the log: waiting ends where there is none.
    """

    def __init__(self, path: str | Path, writable: Callable[[], bool] = lambda: True) -> None:
        self.path = Path(path).resolve()
        self._writable = writable
        self._read = 0
        self._lives: dict[str, Life] = {}
        self._story: list[tuple[int, str, Life]] = []

    def command(self, *options: str) -> list[str]:
        """Return the command that tests give to candidates: `witness.command("--ignore-term", "--exit-after=1")`."""
        return [sys.executable, "-I", "-S", str(PROGRAM), str(self.path), *options]

    # --- what happened
    def terms(self) -> list[Term]:
        """Return the terms so far, oldest first, as they are now: they do not change with the log."""
        self._update()
        terms = {life.key: Term(replace(life)) for life in self._lives.values() if life.parent is None}
        for life in self._lives.values():
            if life.parent is not None:
                terms[life.parent].descendants.append(replace(life))
        return sorted(terms.values(), key=lambda term: term.born)

    def newest(self, since: int | None = None) -> Term | None:
        """Return the last of the terms so far, as it is now; cheaper than all of them.

        With ``since`` the last whose main process has written later than that, and has not ended.
        """
        self._update()
        mains = (life for life in self._lives.values() if life.parent is None)
        if since is not None:
            mains = (life for life in mains if life.last > since and not life.ended)
        if (main := max(mains, key=lambda life: life.born, default=None)) is None:
            return None
        return Term(replace(main), [replace(life) for life in self._lives.values() if life.parent == main.key])

    def overlaps(self) -> list[Overlap]:
        """Return every pair of terms that certainly lived at the same time, unless the earlier one was a rival's."""
        terms = self.terms()
        lasts = [term.last for term in terms]
        found: list[Overlap] = []
        for number, later in enumerate(terms):
            born = later.born
            seen = [
                Overlap(terms[earlier], later, min(last, lasts[number]) - born)
                for earlier, last in enumerate(lasts[:number])
                if last > born and not terms[earlier].main.rival
            ]
            if later.main.clash is not None and not seen:
                before = [term for term in terms[:number] if not term.main.rival]
                seen = [Overlap(before[-1] if before else None, later, None)]
            found += seen
        return found

    def gaps(self) -> list[int]:
        """Return the ns from each term's last sign of life to the birth of the next.

        After a polite end that is the pause in service; after a KILL it is up to a beat (20 ms) too long.
        """
        terms = self.terms()
        return [later.main.born - earlier.last for earlier, later in pairwise(terms)]

    def handovers(self) -> list[tuple[Term, Term, int]]:
        """Return (earlier, later, gap in ns) for each change of identity: a restart in place is none."""
        terms = self.terms()
        pairs = zip(terms, terms[1:], self.gaps(), strict=False)
        return [(earlier, later, gap) for earlier, later, gap in pairs if earlier.identity != later.identity]

    def wrong_tokens(self, *, restarts: bool = False) -> list[tuple[Term, Term]]:
        """Return the neighbours whose fencing token did not grow (by length, then text); who has none is left out.

        With `restarts` the same identity may run again under the same token.
        """
        known = [term for term in self.terms() if term.token != "-"]
        return [
            (earlier, later)
            for earlier, later in pairwise(known)
            if (len(later.token), later.token) <= (len(earlier.token), earlier.token)
            and not (restarts and (later.token, later.identity) == (earlier.token, earlier.identity))
        ]

    def check(self, *, terms: int | None = None, restarts: bool = False) -> None:
        """Raise WitnessError for any overlap, any token that did not grow, or another number of terms than given."""
        wrong = [str(overlap) for overlap in self.overlaps()]
        wrong += [f"token {b.token} came after {a.token}" for a, b in self.wrong_tokens(restarts=restarts)]
        if terms is not None and len(self.terms()) != terms:
            wrong.append(f"{len(self.terms())} terms, not {terms}")
        if wrong:
            raise WitnessError("; ".join(wrong) + f"\n{self.story()}")

    # --- waiting
    def wait(self, until: Callable[[], object], what: str, timeout: float = PATIENCE) -> None:
        """Return once `until()` is true; it is asked after every record. WitnessError with the story otherwise."""
        deadline, ended = time.monotonic() + timeout, 0
        while True:
            ended = 0 if self._writable() else ended + 1  # before the question: what was written last is then read
            size = self._size()  # likewise: what is written meanwhile is not slept through
            if until():
                return
            if ended == 2:  # proc(5): a list of children may leave one out while others end
                raise WitnessError(f"{what}: all processes have ended\n{self.story()}")
            if time.monotonic() >= deadline:
                raise WitnessError(f"{what}: not within {timeout:g} s\n{self.story()}")
            look = min(deadline, time.monotonic() + 0.25)
            while self._size() == size and time.monotonic() < look:
                time.sleep(0.002)

    def wait_start(self, number: int = 1, timeout: float = PATIENCE) -> Term:
        """Return the term of the `number`-th start (from 1), as soon as it is there."""
        self.wait(lambda: len(self.terms()) >= number, f"start number {number}", timeout)
        return self.terms()[number - 1]

    def wait_descendant(self, number: int = 1, timeout: float = PATIENCE) -> Life:
        """Return the first descendant of the `number`-th term, as soon as it is there."""
        term = self.wait_start(number, timeout)
        self.wait(lambda: self.now(term).descendants, f"descendant of pid {term.pid}", timeout)
        return self.now(term).descendants[0]

    def wait_end(self, term: Term, timeout: float = PATIENCE) -> None:
        """Return once the term's main process has written its end; who is killed writes none."""
        self.wait(lambda: self.now(term).main.ended, f"end of pid {term.pid}", timeout)

    def wait_beats(self, number: int = 2, timeout: float = PATIENCE) -> None:
        """Return once the newest term's main process has beaten `number` times more: it runs on."""
        self.wait_start(1, timeout)
        term = self.terms()[-1]
        wanted = term.main.beats + number
        self.wait(lambda: self.now(term).main.beats >= wanted, f"{number} beats of pid {term.pid}", timeout)

    def now(self, term: Term) -> Term:
        """Return the same term as it is now."""
        return next(now for now in self.terms() if now.main.key == term.main.key)

    # --- for people
    def story(self) -> str:
        """Return the log as a timeline, beats folded."""
        self._update()
        events = sorted(self._story, key=lambda event: event[0])
        for life in self._lives.values():
            if not life.ended:
                events.append((life.last, f"last beat of {life.beats}", life))
        if not events:
            return f"{self.path.name}: nothing was written"
        zero = min(life.born for life in self._lives.values())
        lines = []
        for at, event, life in sorted(events, key=lambda event: event[0]):
            role = "" if life.parent is None else f" (descendant of {self._lives[life.parent].pid})"
            text = f"pid {life.pid}{role} token {life.token} {life.identity}"
            lines.append(f"  {(at - zero) / 1e9:+10.4f} s  {event:18} {text}")
        return "\n".join(lines)

    # --- reading
    def _size(self) -> int:
        try:
            return os.stat(self.path).st_size  # noqa: PTH116 - asked 500 times a second
        except FileNotFoundError:
            return 0

    def _update(self) -> None:
        if self._size() <= self._read:
            return
        with self.path.open("rb") as log:
            log.seek(self._read)
            data = log.read()
        whole = len(data) - len(data) % RECORD
        self._read += whole
        for at in range(0, whole, RECORD):
            self._take(data[at : at + RECORD].decode("ascii"))

    def _take(self, record: str) -> None:
        event, at, born, key, parent, pid, token, identity = record.split()
        life = self._lives.get(key)
        if life is None:
            life = Life(key, None if parent == "-" else parent, int(pid), token, identity, int(born))
            self._lives[key] = life
        life.last = max(life.last, int(at))
        if event == "beat":
            life.beats += 1
            return
        self._story.append((int(at), event, life))
        if event == "rival":
            life.rival = True
        elif event == "clash":
            life.clash = int(at)
        elif event == "end":
            life.end = int(at)
