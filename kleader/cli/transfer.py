"""``kleader transfer``: a planned handover to a candidate of one's choice."""

from __future__ import annotations

from typing import Any

import click

from kleader.cli import options, types
from kleader.cli.command import Command

EPILOG = """
\b
Exit status:
  0       IDENTITY leads
  1       it does not, and who does
  2       usage
  125     kleader itself failed: no cluster, no permission, no answer in time

\b
Example:
  kleader transfer worker --to worker-1
"""


@click.command(cls=Command, options_metavar="[OPTIONS]", epilog=EPILOG)
@click.argument("argument", metavar="NAME", required=False)
@options.add(
    (
        options.asking(
            "--to", metavar="IDENTITY", required=True, help="Who is to lead: a candidate's --identity, or client-go's."
        ),
        options.asking(
            "--timeout", type=types.Duration(), default="2m", show_default=True, help="How long to wait for that."
        ),
    ),
    (options.kind(), options.name(help="As NAME."), options.NAMESPACE),
    options.LOOKING,
    (options.ANSWER,),
)
def transfer(argument: str | None, **given: Any) -> None:  # noqa: ANN401
    """Ask the leader of the lock NAME, a kleader, to stop its command and to name IDENTITY the next leader.

    Nobody else can take the lock in between. A candidate leaves no trace on a lock, so whether there is one of that
    name shows only then: if it does not take the lock within the old leader's lease duration, anybody may.
    """
    from kleader.cli import asking, reach
    from kleader.election.request import can_lead

    what, to, form = reach.asked(given, argument), given["to"], given["output"] or ""
    if not what.name and not what.path:
        msg = "which lock? give its NAME"
        raise click.UsageError(msg)
    if not (can_lead(to) and to.isprintable()):
        msg = f"--to {to[:80]!r} is nobody's identity"
        raise click.UsageError(msg)
    asking.refuse_file(what)
    reach.run(asking.transfer(what, to, given["timeout"], form))
