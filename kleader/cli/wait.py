"""``kleader wait``: until somebody leads, nobody does, or somebody else."""

from __future__ import annotations

from typing import Any

import click

from kleader.cli import options, types
from kleader.cli.command import Command
from kleader.cli.option import option

EPILOG = """
\b
Exit status:
  0       it is so
  2       usage
  124     not within --timeout
  125     kleader itself failed: no cluster, no permission, no answer in time

\b
Examples:
  kleader wait --for leader worker --timeout 1m
  kleader wait --for free -n jobs nightly && ./maintenance
"""


@click.command(cls=Command, options_metavar="[OPTIONS]", epilog=EPILOG)
@click.argument("argument", metavar="NAME", required=False)
@options.add(
    (
        option(
            "--for",
            "for",
            section="Waiting",
            metavar="leader|free|change|IDENTITY",
            required=True,
            help="leader: somebody leads, and is seen alive. free: nobody holds the lock, or it is seen to expire."
            " change: the leader changes. IDENTITY: this one leads, and is seen alive.",
        ),
        option(
            "--timeout",
            section="Waiting",
            type=types.Duration(),
            show_default="for ever",
            help="Give up after so long, with status 124.",
        ),
    ),
    (options.kind(), options.name(help="As NAME."), options.NAMESPACE),
    options.LOOKING,
    (options.ANSWER,),
)
def wait(argument: str | None, **given: Any) -> None:  # noqa: ANN401
    """Wait until the lock NAME has a leader, has none, or another one, and print what is then so.

    Nothing is concluded from one look: a leader is alive once it was seen to write, and gone once the lock was seen
    unchanged for its whole duration.
    """
    from kleader.cli import reach, waiting

    what = reach.asked(given, argument)
    if not what.name and not what.path:
        msg = "which lock? give its NAME"
        raise click.UsageError(msg)
    if not given["for"].strip():
        msg = "--for: give leader, free, change or an identity"
        raise click.UsageError(msg)
    reach.run(waiting.until(what, given["for"], given["timeout"], given["output"] or ""))
