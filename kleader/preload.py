"""LD_PRELOAD of an image, which is for the image's C library and not for that of the standalone tree.

The tree's launcher keeps it from the tree's loader, under another name (tools/standalone/launcher.c). Each process of
kleader gives it its own name again, for what that process starts.
"""

from __future__ import annotations

import os

KEPT = "KLEADER_LD_PRELOAD"


def give_back() -> None:
    """Let what this process starts see LD_PRELOAD as the image has it."""
    if (kept := os.environ.pop(KEPT, None)) is not None:
        os.environ["LD_PRELOAD"] = kept
