"""The table: what was tried how often, and what came of it."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass
class Row:
    """One class of faults."""

    trials: int = 0
    watched: int = 0  # fleets that it befell: a fault of the control plane's is one trial, and befalls many
    overlaps: int = 0
    late: int = 0
    gap: float = float("inf")  # seconds: the smallest between a tree's death and the next command's start
    longest: float = 0  # seconds without a leader
    bound: float = 0  # the one that belongs to `longest`
    failures: list[str] = field(default_factory=list)


class Table:
    """One row for each class; all threads write here."""

    def __init__(self, names: list[str], missing: dict[str, str]) -> None:
        self._lock = threading.Lock()
        self._rows = {name: Row() for name in names if name not in missing}
        self._missing = missing
        self._seen: dict[str, set[tuple[str, ...]]] = {}
        self._missed: Counter[str] = Counter()
        self._stuck: Counter[str] = Counter()
        self._came: Counter[str] = Counter()
        self._broken: list[str] = []

    def trial(self, name: str, gaps: list[float], longest: float, bound: float, *, late: bool, counts: bool) -> None:
        """One fleet that a fault befell; `gaps`: after kleader's terms; `counts`: it was not yet counted."""
        with self._lock:
            row = self._rows[name]
            row.trials += counts
            row.watched += 1
            row.late += late
            row.gap = min([row.gap, *gaps])
            row.longest, row.bound = max((longest, bound), (row.longest, row.bound))

    def missed(self, name: str, why: str) -> None:
        """It was not brought about: whom it was meant for had gone."""
        with self._lock:
            self._missed[f"{name}: {why}"] += 1

    def failed(self, name: str, why: str) -> None:
        """It could not be brought about."""
        with self._lock:
            self._rows[name].failures.append(why)

    def stuck(self, name: str) -> None:
        """Nobody led again."""
        with self._lock:
            self._stuck[name] += 1

    def came(self, outcome: str) -> None:
        """What came of a request."""
        with self._lock:
            self._came[outcome] += 1

    def broken(self, name: str, why: str) -> None:
        """Another promise than that of one leader at a time."""
        with self._lock:
            self._broken.append(f"{name}: {why}")

    def news(self, fleet: str, name: str, wrong: Mapping[tuple[str, ...], str]) -> list[str]:
        """Which of these, by their terms, were not known of this fleet; they are counted for this class."""
        with self._lock:
            seen = self._seen.setdefault(fleet, set())
            new = [text for terms, text in wrong.items() if terms not in seen]
            seen.update(wrong)
            if name in self._rows:
                self._rows[name].overlaps += len(new)
            return new

    # --- at the end

    @property
    def trials(self) -> int:
        return sum(row.trials for row in self._rows.values())

    @property
    def overlaps(self) -> int:
        return sum(map(len, self._seen.values()))

    def seldom(self, least: int) -> list[str]:
        """The classes that came fewer than so many times."""
        return [name for name, row in self._rows.items() if row.trials < least]

    def problems(self, least: int) -> list[str]:
        """Why the run is no proof; nothing: it is one. `least`: of how many trials a class consists."""
        found = [f"{self.overlaps} overlaps"] if self.overlaps else []
        found += self._broken
        found += [] if self.trials else ["nothing was tried"]
        found += [f"{name}: {self._rows[name].trials} trials, fewer than {least}" for name in self.seldom(least)]
        for name, row in self._rows.items():
            if len(row.failures) > row.trials:
                found.append(f"{name}: could not be brought about {len(row.failures)} times")
        return found

    def summary(self) -> str:
        """In one sentence."""
        rows = [row for row in self._rows.values() if row.trials]
        gap = min((row.gap for row in rows), default=float("inf"))
        bound = f"rate below 3/n = {3 / self.trials:.1e}" if self.trials and not self.overlaps else "no proof"
        least = min((row.trials for row in self._rows.values()), default=0)
        tried = f"{self.trials} faults of {len(rows)} classes, each at least {least} times"
        late = sum(row.late for row in rows)
        return f"{tried}: {self.overlaps} overlaps, {bound}; smallest gap {gap * 1000:.0f} ms; {late} late"

    def text(self) -> str:
        """For people."""
        head = f"{'fault':52} {'trials':>6} {'fleets':>6} {'overlaps':>8} {'bound':>8} "
        lines = [head + f"{'smallest gap':>12} {'longest without a leader':>25} {'late':>4}"]
        for name, row in self._rows.items():
            gap = f"{row.gap * 1000:9.0f} ms" if row.gap != float("inf") else f"{'-':>12}"
            longest = f"{row.longest:6.1f} s of {row.bound:5.1f} s" if row.watched else "-"
            bound = f"{3 / row.trials:8.1e}" if row.trials and not row.overlaps else f"{'-':>8}"
            counts = f"{row.trials:6} {row.watched:6} {row.overlaps:8} {bound}"
            lines.append(f"{name:52} {counts} {gap} {longest:>25} {row.late:4}")
        total = self.trials
        bound = f"{3 / total:8.1e}" if total and not self.overlaps else f"{'-':>8}"
        watched, late = (sum(getattr(row, key) for row in self._rows.values()) for key in ("watched", "late"))
        lines.append(f"{'all':52} {total:6} {watched:6} {self.overlaps:8} {bound} {'':12} {'':25} {late:4}")
        lines += [f"not tried on this machine: {name}: {why}" for name, why in self._missing.items()]
        if self._came:
            outcomes = ", ".join(f"{count} {what}" for what, count in sorted(self._came.items()))
            lines.append(f"came of what was asked: {outcomes}")
        lines += [f"nobody led, all were started anew: {count}x {name}" for name, count in self._stuck.items()]
        lines += [f"not counted: {count}x {what}" for what, count in self._missed.most_common(8)]
        lines += [f"not brought about: {name}: {each}" for name, row in self._rows.items() for each in row.failures[:3]]
        return "\n".join(lines)


LEGEND = """\
trials: faults that were injected; fleets: how many fleets of three candidates they befell
bound: 3/n, n trials: the rate of overlaps is below it with a confidence of 95 %
smallest gap: from the last sign of life of a term's processes (after a SIGKILL up to 20 ms before their death) to the
    next command's birth; longest without a leader: likewise, beside what was expected; late: it took longer"""
