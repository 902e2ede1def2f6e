"""The last words of a command line that cannot go on."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

FAILED, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127


def fail(sentence: str | None, status: int) -> NoReturn:
    """Say what is wrong in one line, and exit."""
    click.echo(f"kleader: error: {' '.join(str(sentence).split())}", err=True)
    sys.exit(status)


def remark(sentence: str) -> None:
    """Say what somebody should know, in one line."""
    click.echo(f"kleader: {' '.join(sentence.split())}", err=True)
