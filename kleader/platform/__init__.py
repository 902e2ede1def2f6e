"""What the operating system gives: on Linux all of it, elsewhere what there is, with Null objects for the rest."""

from __future__ import annotations

import sys

if sys.platform == "linux":
    from kleader.platform.linux import (
        MISSING,
        KillTimer,
        Signals,
        Timer,
        adopt_orphans,
        anonymous_file,
        clock,
        default_signals,
        die_with_parent,
        link_pair,
    )
    from kleader.platform.procfs import (
        Process,
        below,
        environment_has,
        filesystem,
        has_children,
        kill,
        process,
        processes,
    )
else:
    from kleader.platform.portable import (
        MISSING,
        KillTimer,
        Process,
        Signals,
        Timer,
        adopt_orphans,
        anonymous_file,
        clock,
        default_signals,
        die_with_parent,
        below,
        environment_has,
        filesystem,
        has_children,
        kill,
        link_pair,
        process,
        processes,
    )

__all__ = [
    "MISSING",
    "KillTimer",
    "Process",
    "Signals",
    "Timer",
    "adopt_orphans",
    "anonymous_file",
    "below",
    "clock",
    "default_signals",
    "descendants",
    "die_with_parent",
    "environment_has",
    "filesystem",
    "has_children",
    "kill",
    "link_pair",
    "process",
    "processes",
]


def descendants(table: dict[int, Process], root: int, *, but: frozenset[int] = frozenset()) -> list[Process]:
    """All processes in ``table`` below ``root``, parents first, leaving out those in ``but`` with all that is below them."""
    below: dict[int, list[Process]] = {}
    for each in table.values():
        below.setdefault(each.parent, []).append(each)
    found: list[Process] = []
    roots = [root]
    for parent in roots:
        for each in below.get(parent, ()):
            if each.pid not in but and each.pid != root:
                found.append(each)
                roots.append(each.pid)
    return found
