"""What the operating system gives: on Linux all of it, elsewhere what there is, with Null objects for the rest."""

from __future__ import annotations

import sys

from kleader.platform.descriptors import close_all_but
from kleader.platform.dispositions import default_signals, die_of
from kleader.platform.table import Process, descendants

if sys.platform == "linux":
    from kleader.platform.linux import (
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
    )
    from kleader.platform.procfs import (
        below,
        children,
        environment,
        environment_has,
        filesystem,
        kill,
        myself,
        process,
        processes,
    )
else:
    from kleader.platform.portable import (
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
        die_with_parent,
        environment,
        environment_has,
        filesystem,
        kill,
        link_pair,
        myself,
        process,
        processes,
    )

__all__ = [
    "MISSING",
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
    "default_signals",
    "descendants",
    "die_of",
    "die_with_parent",
    "environment",
    "environment_has",
    "filesystem",
    "kill",
    "link_pair",
    "myself",
    "process",
    "processes",
]
