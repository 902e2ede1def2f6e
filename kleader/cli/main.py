"""The entry point ``kleader``."""

from __future__ import annotations

import os
import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as in the background
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C shows no traceback, not even of an import

import click

from kleader import __version__
from kleader.cli.group import Group
from kleader.cli.say import FAILED, fail

SUPPORTED = ("linux", "darwin")
_STDERR = 2


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "KLEADER", "max_content_width": 100},
)
@click.version_option(__version__, prog_name="kleader", allow_from_autoenv=False)  # images set KLEADER_VERSION
def cli() -> None:
    """Run a command only while leader.

    Takes a Kubernetes lock the way kube-controller-manager, kube-scheduler, client-go and controller-runtime do, or a
    lock on this machine; starts the command; kills it, tree and all, before anybody else can lead.
    """


def main(program: str = "kleader") -> None:
    """Run the command line. Whatever goes wrong is one line; as PID 1 a TERM waits until somebody takes it."""
    _open_standard_streams()
    if os.getpid() == 1:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    if sys.platform not in SUPPORTED:
        fail(f"{sys.platform} is not supported: Linux is, and macOS with limits", FAILED)
    try:
        cli(prog_name=program)
    except OSError as error:
        fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", FAILED)
    except Exception as error:  # noqa: BLE001 - nobody sees a traceback
        fail(f"internal error: {type(error).__name__}: {error}; please report it", FAILED)


def _open_standard_streams() -> None:
    """Where one was closed, what is opened next would take its number, and then be written to as if it were a log."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass  # across exec it is closed again, as the command is to find it
    os.close(fd)
