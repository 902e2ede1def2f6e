"""``kleader transfer``: the leader hands the lock over to a named candidate."""

from __future__ import annotations

from typing import Any

import click

from kleader.cli import options, types
from kleader.cli.command_line import Command

EPILOG = """
\b
Exit status:
  0       IDENTITY leads
  1       IDENTITY does not lead; the error says why
  2       usage
  125     kleader itself failed: no cluster, no permission, no answer in time

\b
Example:
  kleader transfer worker --to worker-1
"""


@click.command(cls=Command, epilog=EPILOG)
@options.lock_argument()
@options.groups(
    (
        options.request(
            "--to", "The --identity of the next leader, or client-go's.", metavar="IDENTITY", required=True
        ),
        options.request("--timeout", "How long to wait for it to lead.", type=types.duration, default="2m"),
    ),
    *options.ONE_LOCK,
)
def transfer(argument: str | None, **params: Any) -> None:  # noqa: ANN401 - click's
    """Ask the leader to hand the lock to a named candidate.

    The leader of the lock NAME has to be a kleader. It stops its command first, and no other candidate can acquire the
    lock in between. Candidates are not registered, so a wrong IDENTITY is noticed only after the leader has stopped: if
    IDENTITY does not take the lock within the lease duration, any candidate may.
    """
    from kleader.cli import api_access, leader_requests, locate
    from kleader.election.request import can_lead

    query, to = locate.query(params, argument, one_lock=True), params["to"]
    if not (can_lead(to) and to.isprintable()):
        raise click.UsageError(f"--to {to[:80]!r} cannot be an identity")
    leader_requests.refuse_lock_file(query)
    api_access.run(leader_requests.transfer(query, to, params["timeout"], params["output"] or ""))
