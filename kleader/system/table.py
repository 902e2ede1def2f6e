"""Processes as data, wherever they were read."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection


class Process(NamedTuple):
    """One process at one moment. ``start``, in the system's unit, tells it from a later one with the same pid."""

    pid: int
    parent: int
    group: int
    state: str
    threads: int
    start: int

    @property
    def dead(self) -> bool:
        """A zombie whose other threads are gone too: a zombie leader with a second thread still works."""
        return self.state in "ZX" and self.threads <= 1


def descendants(table: dict[int, Process], roots: Collection[int], but: Collection[int]) -> list[Process]:
    """All processes in ``table`` below ``roots``, parents first, without those in ``but`` and what is below them."""
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    seen = {*roots, *but}
    parents = [*roots]
    for parent in parents:
        for process in children.get(parent, ()):
            if process.pid not in seen:
                seen.add(process.pid)
                found.append(process)
                parents.append(process.pid)
    return found
