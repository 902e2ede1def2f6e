"""``kleader is-leader``: asks the kleader of this machine or Pod, not the API; imports little, for a probe is quick."""

from __future__ import annotations

import sys

import click

from kleader.cli import options
from kleader.cli.command import Command
from kleader.cli.say import FAILED, fail
from kleader.link import local

_PATIENCE = 1.0  # seconds

EPILOG = """
\b
Exit status:
  0       it leads: its command runs, and is not about to be killed
  1       it does not
  2       usage
  125     nobody can tell: no kleader answers in time, or several are here
"""


@click.command(cls=Command, options_metavar="[OPTIONS]", epilog=EPILOG)
@options.lock("--name", metavar="NAME", help="The lock's name, where kleaders of several locks are here.")
@options.lock("-n", "--namespace", metavar="NAMESPACE", help="The lock's namespace, where that is not enough.")
def is_leader(name: str | None, namespace: str | None) -> None:
    """Tell by the exit status whether the kleader of this machine or Pod leads.

    It is the kleader that is asked, no cluster. Its role is printed too.
    """
    answers = local.ask(name, _PATIENCE)
    fitting = [each for each in answers.given if name in {None, each.name} and namespace in {None, each.namespace}]
    locks = {each.lock for each in fitting}
    if len(locks) > 1 or len({local.short(each.name) for each in fitting} | answers.silent) > 1:
        there = ", ".join(sorted(locks) + [f"one of {each} that does not answer" for each in sorted(answers.silent)])
        fail(f"several kleaders are here, {there}: give --name, and -n where the names are the same", FAILED)
    if any(each.leads for each in fitting):
        click.echo("leader")
    elif answers.silent:
        fail("the kleader that is here does not answer: it is stopped, or the machine is overloaded", FAILED)
    elif fitting:
        role = fitting[0].role
        click.echo("leader, but its command does not run" if role == "leader" else role)
        sys.exit(1)
    else:
        asked = f" of the lock {name}" if name else ""
        others = "".join(f"; what user {each} has is not trusted" for each in sorted(answers.strangers))
        fail(f"no kleader{asked} runs here{others}: see {local.RUNTIME_DIR} for one in another container", FAILED)
