"""``kleader is-leader``: asks the kleader of this machine or Pod, not the API. It imports little: probes run often."""

from __future__ import annotations

import os
import sys

import click

from kleader.cli import options
from kleader.cli.command_line import Command
from kleader.cli.console import fail
from kleader.exits import FAILED, NOT_DONE
from kleader.ipc import status_socket

_ANSWER_SECONDS = 1.0

EPILOG = """
\b
Exit status:
  0       it leads: its command runs, and its deadline has not passed
  1       it does not lead
  2       usage
  125     no kleader answers in time, or several locks run here: give --name
"""


@click.command(cls=Command, epilog=EPILOG)
@options.lock("--name", "The name of the lock, if more than one runs here.", metavar="NAME")
@options.lock("-n --namespace namespace", "The namespace of the lock, if names are the same.", metavar="NAMESPACE")
def is_leader(name: str | None, namespace: str | None) -> None:
    """Exit with 0 if the kleader of this Pod or host leads.

    It asks that kleader, not the cluster, and prints its role. Outside a Pod --name is required, because several locks
    may run on the host. The command of a kleader run need not give it: KLEADER_NAME is in its environment.
    """
    if name is None and (name := os.environ.get("KLEADER_NAME") or None):
        namespace = namespace or os.environ.get("KLEADER_NAMESPACE") or None
    if name is None and "KUBERNETES_SERVICE_HOST" not in os.environ:
        fail("which lock? give --name: outside a Pod, several locks may run on this host", FAILED)
    answers = status_socket.ask(name, _ANSWER_SECONDS)
    matching = [
        answer for answer in answers.received if name in {None, answer.name} and namespace in {None, answer.namespace}
    ]
    locks = {answer.lock for answer in matching}
    if len(locks) > 1 or len({status_socket.label(answer.name) for answer in matching} | answers.silent) > 1:
        found = ", ".join(
            sorted(locks) + [f"one of {silent} that does not answer" for silent in sorted(answers.silent)]
        )
        fail(f"more than one lock runs on this host: {found}: choose one with --name (and -n)", FAILED)
    if any(answer.leads for answer in matching):
        click.echo("leader")
    elif answers.silent:
        fail("the kleader on this host does not answer: it is stopped, or the machine is overloaded", FAILED)
    elif matching:
        role = matching[0].role
        click.echo("leader, but its command does not run" if role == "leader" else role)
        sys.exit(NOT_DONE)
    else:
        lock = f" of the lock {name}" if name else ""
        others = "".join(f"; the sockets of user {user} are not trusted" for user in sorted(answers.untrusted_users))
        hint = f"if it runs in another container, share a directory and set {status_socket.RUNTIME_DIR}"
        fail(f"no kleader{lock} runs here{others}: {hint}", FAILED)
