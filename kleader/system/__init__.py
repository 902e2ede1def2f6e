"""What the operating system gives: on Linux all of it, elsewhere what there is, with Null objects for the rest."""

from __future__ import annotations

import sys

from kleader.system.dispositions import default_signals, die_of
from kleader.system.fds import OPEN_FILES, close_all_but
from kleader.system.table import Process, descendants

if sys.platform == "linux":
    from kleader.system.linux import (
        MISSING,
        KillTimer,
        SignalInfo,
        Signals,
        Timer,
        adopt_orphans,
        anonymous_file,
        clock,
        die_with_parent,
        link_pair,
        take_priority,
    )
    from kleader.system.procfs import (
        below,
        children,
        dead_for_good,
        entered,
        environment,
        environment_has,
        filesystem,
        kill,
        myself,
        name_of,
        process,
        processes,
        sigkill,
    )
else:
    from kleader.system.portable import (
        MISSING,
        KillTimer,
        SignalInfo,
        Signals,
        Timer,
        adopt_orphans,
        anonymous_file,
        below,
        children,
        clock,
        dead_for_good,
        die_with_parent,
        entered,
        environment,
        environment_has,
        filesystem,
        kill,
        link_pair,
        myself,
        name_of,
        process,
        processes,
        sigkill,
        take_priority,
    )

__all__ = [
    "MISSING",
    "OPEN_FILES",
    "KillTimer",
    "Process",
    "SignalInfo",
    "Signals",
    "Timer",
    "adopt_orphans",
    "anonymous_file",
    "below",
    "children",
    "clock",
    "close_all_but",
    "dead_for_good",
    "default_signals",
    "descendants",
    "die_of",
    "die_with_parent",
    "entered",
    "environment",
    "environment_has",
    "filesystem",
    "kill",
    "link_pair",
    "myself",
    "name_of",
    "process",
    "processes",
    "sigkill",
    "take_priority",
]
