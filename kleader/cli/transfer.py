"""``kleader transfer``: the leader hands the lock over to a named candidate."""

from __future__ import annotations

from typing import Any

import click

from kleader.cli import options, types
from kleader.cli.command_line import Command

EPILOG = """
\b
Exit status:
  0       IDENTITY, or the best standby, leads
  1       it does not lead, or does not wait; the error says why
  2       usage
  125     kleader itself failed: no cluster, no permission, no answer in time

\b
Examples:
  kleader transfer worker
  kleader transfer worker --to worker-1
"""


@click.command(cls=Command, epilog=EPILOG)
@options.lock_argument()
@options.groups(
    (
        options.request(
            "--to",
            "The next leader: the identity of a standby, or the name of its Pod.",
            show_default="the best standby",
            **{**options.completed_by("candidates"), "metavar": "IDENTITY"},
        ),
        options.request(
            "--force",
            "Do not check that --to waits for the lock: for a candidate of client-go, or one with --no-register.",
            is_flag=True,
        ),
        options.request("--timeout", "How long to wait for the next leader.", type=types.duration, default="2m"),
    ),
    *options.ONE_LOCK,
)
def transfer(argument: str | None, **params: Any) -> None:  # noqa: ANN401 - click's
    """Ask the leader to hand the lock to a candidate that waits for it.

    The leader of the lock NAME has to run kleader. First kleader checks that IDENTITY waits and is healthy. Then the
    leader stops its command, and no other candidate can acquire the lock in between. If IDENTITY does not take the lock
    within the lease duration, any candidate may take it.
    """
    from kleader.cli import api_access, leader_requests, locate
    from kleader.election.request import can_lead

    query, to = locate.query(params, argument, one_lock=True), params["to"]
    if to is None and params["force"]:
        raise click.UsageError(
            "--force needs --to: it does not read the list of candidates, from which the best standby is chosen"
        )
    if to is not None and not (can_lead(to) and to.isprintable()):
        raise click.UsageError(f"--to {to[:80]!r} cannot be an identity: give 1 to 1024 printable characters")
    leader_requests.refuse_lock_file(query)
    api_access.run(
        leader_requests.transfer(query, to or "", params["timeout"], params["output"] or "", force=params["force"])
    )
