"""What the operating system gives: on Linux all of it, elsewhere what there is, with Null objects for the rest."""

from __future__ import annotations

import sys

from kleader.system.dispositions import *  # noqa: F403 - all of it is this package's
from kleader.system.fds import *  # noqa: F403
from kleader.system.table import *  # noqa: F403

if sys.platform == "linux":
    from kleader.system.linux import *  # noqa: F403
    from kleader.system.procfs import *  # noqa: F403
else:
    from kleader.system.portable import *  # noqa: F403
