"""``kleader is-leader``: asks the kleader of this machine or Pod, not the API. A probe's call does not come here."""

from __future__ import annotations

import sys

import click

from kleader.cli import options, probe
from kleader.cli.command_line import Command

EPILOG = """
\b
Exit status:
  0       it leads: its command runs, and its deadline has not passed
  1       it does not lead
  2       usage
  125     no kleader answers in time, or there are several locks: give --name
"""


@click.command(cls=Command, epilog=EPILOG)
@options.lock(probe.OPTIONS["name"], "The name of the lock, if more than one runs here.", metavar="NAME")
@options.lock(probe.OPTIONS["namespace"], "The namespace of the lock, if names are the same.", metavar="NAMESPACE")
def is_leader(name: str | None, namespace: str | None) -> None:
    """Exit with 0 if the kleader of this Pod or host leads.

    It asks that kleader, not the cluster, and prints its role. Outside a Pod --name is required, because several locks
    may run on the host. The command of a kleader run need not give it: KLEADER_NAME is in its environment.
    """
    sys.exit(probe.answer(name, namespace))
