"""``kleader wait``: until the lock has a leader, has none, or another one."""

from __future__ import annotations

from typing import Any

import click

from kleader.cli import options, types
from kleader.cli.command_line import Command, section

_STATES = ("leader", "free", "change")
_waiting = section("Waiting")

EPILOG = """
\b
Exit status:
  0       the lock is in that state
  2       usage
  124     the lock was not in that state within --timeout
  125     kleader itself failed: no cluster, no permission, no answer in time

\b
Examples:
  kleader wait --for leader worker --timeout 1m
  kleader wait --for free -n jobs nightly && ./maintenance
"""


@click.command(cls=Command, epilog=EPILOG)
@options.lock_argument()
@options.groups(
    (
        _waiting(
            "--for for",
            "The state to wait for. leader: a leader is observed alive. free: the lock has no holder, or is observed to"
            " expire. change: the leader changes. IDENTITY: this candidate leads, and is observed alive.",
            metavar="leader|free|change|IDENTITY",
            required=True,
            **options.words(_STATES),
        ),
        _waiting(
            "--timeout", "Give up after this time, with status 124.", type=types.duration, show_default="for ever"
        ),
    ),
    *options.ONE_LOCK,
)
def wait(argument: str | None, **params: Any) -> None:  # noqa: ANN401 - click's
    """Wait until a lock has a leader, has none, or has another one.

    Then its state is printed. A single read proves nothing: a leader is alive once it was observed to renew, and gone
    once the lock was observed unchanged for its whole lease duration.
    """
    from kleader.cli import api_access, locate, wait_for_state

    query = locate.query(params, argument, one_lock=True)
    if not params["for"].strip():
        raise click.UsageError("--for: give leader, free, change or an identity")
    api_access.run(wait_for_state.wait(query, params["for"], params["timeout"], params["output"] or ""))
