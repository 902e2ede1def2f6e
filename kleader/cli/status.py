"""``kleader status``: who leads, as far as somebody can tell who only looks."""

from __future__ import annotations

from typing import Any

import click

from kleader.cli import options
from kleader.cli.command import Command

FORMS = ("wide", "json", "yaml", "name")

EPILOG = """
\b
Exit status:
  0       there are locks, or no NAME was given
  1       there is no lock NAME
  2       usage
  125     kleader itself failed: no cluster, no permission, no answer in time

\b
Examples:
  kleader status -n kube-system
  kleader status -A -o wide
  kleader status worker --watch
"""


@click.command(cls=Command, options_metavar="[OPTIONS]", epilog=EPILOG)
@click.argument("argument", metavar="[NAME]", required=False)
@options.add(
    (
        options.kind(default=None, show_default="every type"),
        options.name(show_default="every name", help="As NAME."),
        options.NAMESPACE,
        options.lock("-A", "--all-namespaces", "all_namespaces", is_flag=True, help="The locks of all namespaces."),
        options.lock("--all-leases", is_flag=True, help="Those of nodes and API servers too, which elect nobody."),
    ),
    options.LOOKING,
    (
        options.printing("-w", "--watch", "watch", is_flag=True, help="Follow what happens, until interrupted."),
        options.printing(
            "-o",
            "--output",
            "output",
            type=click.Choice(FORMS),
            default=None,
            show_default="a table",
            help="wide: with who wrote the lock, and how; json, yaml: all that is known; name: as kubectl takes it.",
        ),
    ),
)
def status(argument: str | None, **given: Any) -> None:  # noqa: ANN401
    """Show the lock NAME, or all locks of a namespace, whoever wrote them.

    One look cannot tell whether a silent leader's time is over: its clock is not ours. So what is overdue is called
    that; with --watch it is seen to expire, as every candidate sees it.
    """
    options.prevail(given, "namespace", "all_namespaces")
    from kleader.cli import reach, showing

    what, form = reach.asked(given, argument), given["output"] or ""
    reach.run(showing.follow(what, form) if given["watch"] else showing.once(what, form))
