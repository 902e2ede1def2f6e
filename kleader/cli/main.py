"""The entry point ``kleader``."""

from __future__ import annotations

import os
import signal
import sys

import click

from kleader import __version__
from kleader.cli.run import run

SUPPORTED = ("linux", "darwin")


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "KLEADER", "max_content_width": 100},
)
@click.version_option(__version__, prog_name="kleader")
def cli() -> None:
    """Run a command only while leader.

    Takes a Kubernetes lock the way kube-controller-manager, kube-scheduler, client-go and controller-runtime do, or a
    lock on this machine; starts the command; kills it, tree and all, before anybody else can lead.
    """


cli.add_command(run)


def main() -> None:
    """Run the command line. Ctrl-C ends it as it ends any program; as PID 1 a TERM waits until somebody takes it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if os.getpid() == 1:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    if sys.platform not in SUPPORTED:
        click.echo(f"kleader: error: {sys.platform} is not supported: Linux is, and macOS with limits", err=True)
        sys.exit(125)
    cli(prog_name="kleader")
