"""``kleader resign``: asks the leader to end its term, or takes the lock from who cannot be asked."""

from __future__ import annotations

import sys
from typing import Any

import click

from kleader.cli import options, types
from kleader.cli.command import Command

EPILOG = """
\b
Exit status:
  0       nobody holds the lock, or somebody else does by now
  1       it was not done, and why
  2       usage
  125     kleader itself failed: no cluster, no permission, no answer in time

\b
Examples:
  kleader resign worker
  kleader resign worker --force --yes
"""


@click.command(cls=Command, options_metavar="[OPTIONS]", epilog=EPILOG)
@click.argument("argument", metavar="NAME", required=False)
@options.add(
    (
        options.asking(
            "--timeout", type=types.Duration(), default="1m", show_default=True, help="How long to wait for that."
        ),
        options.asking(
            "--force",
            is_flag=True,
            help="Ask nobody: take the lock from a holder that is dead, or no kleader, and mend a record that nobody"
            " can read, once it was seen unchanged for its duration.",
        ),
        options.asking("--now", is_flag=True, help="With --force: at once. If the holder is alive, two may lead."),
        options.asking("-y", "--yes", "yes", is_flag=True, help="With --force: go on without asking."),
    ),
    (options.kind(), options.name(help="As NAME."), options.NAMESPACE),
    options.LOOKING,
    (options.ANSWER,),
)
def resign(argument: str | None, **given: Any) -> None:  # noqa: ANN401
    """Ask the leader of the lock NAME, a kleader, to stop its command and to release the lock.

    The request is left on the lock's object, so it works from anywhere. Its status is that of a lost lock; with
    --on-loss wait it contends again after a lease duration.
    """
    from kleader.cli import asking, clearing, reach

    for each in ("now", "yes"):
        if given[each] and not given["force"]:
            msg = f"--{each} goes with --force"
            raise click.UsageError(msg)
    what, form = reach.asked(given, argument), given["output"] or ""
    if not what.name and not what.path:
        msg = "which lock? give its NAME"
        raise click.UsageError(msg)
    asking.refuse_file(what)
    if not given["force"]:
        reach.run(asking.resign(what, given["timeout"], form))
        return
    if not given["yes"] and not sys.stdin.isatty():
        msg = "--force wants to be confirmed: give --yes where nobody can answer"
        raise click.UsageError(msg)
    reach.run(clearing.clear(what, given["timeout"], form, now=given["now"], yes=given["yes"]))
