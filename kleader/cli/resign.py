"""``kleader resign``: asks the leader to step down, or clears a lock whose holder cannot be asked."""

from __future__ import annotations

import sys
from typing import Any

import click

from kleader.cli import options, types
from kleader.cli.command_line import Command

EPILOG = """
\b
Exit status:
  0       the lock is free, or has another holder by now
  1       the leader did not resign; the error says why
  2       usage
  125     kleader itself failed: no cluster, no permission, no answer in time

\b
Examples:
  kleader resign worker
  kleader resign worker --force --yes
"""


@click.command(cls=Command, epilog=EPILOG)
@options.lock_argument()
@options.groups(
    (
        options.request(
            "--timeout", "How long to wait for the leader to step down.", type=types.duration, default="1m"
        ),
        options.request(
            "--force",
            "Clear the lock without a request: the holder is dead or does not run kleader, or its record is malformed."
            " The lock is cleared once it was observed unchanged for its lease duration.",
            is_flag=True,
        ),
        options.request(
            "--now", "With --force: at once. A living holder may lead beside the next leader.", is_flag=True
        ),
        options.request("-y --yes yes", "With --force: do not ask for confirmation.", is_flag=True),
    ),
    *options.ONE_LOCK,
)
def resign(argument: str | None, **params: Any) -> None:  # noqa: ANN401 - click's
    """Ask the leader to stop its command and to release the lock.

    The leader of the lock NAME has to run kleader. The request is written on the lock's object, so it can be sent from
    anywhere. The leader exits as after a lost lock; with --on-loss wait it competes again after a lease duration.
    """
    from kleader.cli import api_access, force_clear, leader_requests, locate

    for name in ("now", "yes"):
        if params[name] and not params["force"]:
            raise click.UsageError(f"--{name} needs --force")
    query = locate.query(params, argument, one_lock=True)
    timeout, form = params["timeout"], params["output"] or ""
    leader_requests.refuse_lock_file(query)
    if not params["force"]:
        api_access.run(leader_requests.resign(query, timeout, form))
        return
    if not params["yes"] and not sys.stdin.isatty():
        raise click.UsageError("--force asks for confirmation, and there is no terminal: give --yes")
    api_access.run(force_clear.clear(query, timeout, form, now=params["now"], yes=params["yes"]))
