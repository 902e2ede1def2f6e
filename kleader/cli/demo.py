"""``kleader demo``: shows what kleader is for, without a cluster."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
from typing import NoReturn

import click

from kleader.cli.command_line import Command
from kleader.cli.console import fail
from kleader.exits import FAILED, NOT_DONE

EPILOG = """
\b
Exit status:
  0       no two workers were alive at once
  1       two workers were alive at once: please report it
  2       usage
  125     kleader itself failed
"""


@click.command(cls=Command, epilog=EPILOG)
def demo() -> None:
    """Show three candidates for one lock, and the leader killed.

    It takes about ten seconds and needs no cluster: the lock is a file in a temporary directory, which is removed at
    the end.
    """
    from kleader.cli.demo_picture import Picture
    from kleader.cli.demo_story import DemoError, Story

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})  # PID 1 has them blocked
    picture = Picture()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="kleader-demo-") as directory,
            contextlib.closing(Story(os.path.realpath(directory), picture)) as story,
        ):
            sys.exit(0 if story.play() else NOT_DONE)
    except DemoError as error:
        fail(str(error), FAILED)
    finally:
        picture.finish()


def _stop(number: int, _frame: object) -> NoReturn:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # the candidates are stopped now, in at most a few seconds
    sys.exit(128 + number)
