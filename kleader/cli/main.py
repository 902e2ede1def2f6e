"""The entry points: ``kleader``, and the two that kubectl looks for on PATH, the plugin and its completion.

They import little, and click only where the command line is not a probe's: probes run often.
"""

from __future__ import annotations

import os
import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as in a background job
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C shows no traceback, not even of an import

from kleader import preload
from kleader.cli import COMPLETION_VARIABLE, probe
from kleader.cli.console import fail
from kleader.exits import FAILED
from kleader.log import fill_standard_descriptors

SUPPORTED = ("linux", "darwin")


def main(program: str = "kleader") -> None:
    """Run the command line. Every error is one line. In PID 1, TERM and INT stay pending until they are handled."""
    fill_standard_descriptors()
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)  # Python has None where one was closed
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    preload.give_back()
    if os.getpid() == 1:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    if sys.platform not in SUPPORTED:
        fail(f"{sys.platform} is not supported: use Linux, or macOS with limits", FAILED)
    options = probe.plain_options(sys.argv[1:])
    try:
        if options is not None:
            sys.exit(probe.answer(**options))
        _run_by_click(program)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python writes what is left of its buffer at the end
        fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", FAILED)
    except Exception as error:  # noqa: BLE001 - one line, not a traceback
        fail(f"internal error: {type(error).__name__}: {error}; please report it", FAILED)


def kubectl_leader() -> None:
    """Run the command line, as ``kubectl leader`` in its help and its usage errors."""
    main("kubectl leader")


def kubectl_complete() -> None:
    """Print what completes the arguments, as kubectl reads it of a ``kubectl_complete-NAME``."""
    from kleader.cli.commands import cli
    from kleader.cli.completion import answer_kubectl

    answer_kubectl(cli, sys.argv[1:])


def _run_by_click(program: str) -> None:
    from kleader.cli.commands import cli

    if COMPLETION_VARIABLE in os.environ:
        from kleader.cli.completion import answer_shell

        answer_shell(cli)
    cli(prog_name=program)
