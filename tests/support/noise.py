"""How slow the machine is meanwhile: what a test of time compares with."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class Noise:
    """Starts a bare Python over and over while it is entered; ``worst`` is the longest such start, in seconds."""

    def __init__(self) -> None:
        self.worst = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._measure)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _measure(self) -> None:
        while not self._over.wait(0.02):
            began = time.monotonic()
            subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
            self.worst = max(self.worst, time.monotonic() - began)
