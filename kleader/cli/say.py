"""What a command line says beside its answer, and its last words where it cannot go on."""

from __future__ import annotations

import sys
import time
from typing import NoReturn

import click

FAILED, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127


def fail(sentence: str | None, status: int) -> NoReturn:
    """Say what is wrong in one line, and exit."""
    click.echo(f"kleader: error: {' '.join(str(sentence).split())}", err=True)
    sys.exit(status)


def remark(sentence: str) -> None:
    """Say in one line what somebody should know beside the answer."""
    click.echo(f"kleader: {' '.join(sentence.split())}", err=True)


class Repeated:
    """Remarks that are told again at most every so many seconds."""

    def __init__(self, every: float = 10.0) -> None:
        self._every = every
        self._said: dict[str, float] = {}

    def remark(self, sentence: str) -> None:
        """As :func:`remark`."""
        now = time.monotonic()
        if now - self._said.get(sentence, -self._every) >= self._every:
            self._said = {text: at for text, at in self._said.items() if now - at < self._every} | {sentence: now}
            remark(sentence)
