"""``kleader status``: the locks, as a process that holds none of them can observe them."""

from __future__ import annotations

from typing import Any

import click

from kleader.cli import options
from kleader.cli.command_line import Command

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


@click.command(cls=Command, epilog=EPILOG)
@options.lock_argument(required=False)
@options.groups(
    (
        options.lock_type(default=None, show_default="every type"),
        options.lock_name(show_default="every name"),
        options.NAMESPACE,
        options.lock("-A --all-namespaces all_namespaces", "The locks of all namespaces.", is_flag=True),
        options.lock("--all-leases", "Also the leases of nodes and API servers, which elect no leader.", is_flag=True),
    ),
    options.CLIENT,
    (
        options.output("-w --watch watch", "Follow the changes, until interrupted.", is_flag=True),
        options.output(
            "-o --output output",
            "How to print the result. wide: also transitions, duration, writer and incarnation, and of one lock the"
            " latest runs."
            " json, yaml: everything that is known. name: as kubectl takes it.",
            type=click.Choice(("wide", "json", "yaml", "name")),
            show_default="a table",
        ),
    ),
)
def status(argument: str | None, **params: Any) -> None:  # noqa: ANN401 - click's
    """Show who leads: one lock, or all locks of a namespace.

    It shows the locks of every program that uses the protocol of client-go. A single read cannot prove that a lease
    has expired, because clocks differ: such a lock is shown as overdue. --watch observes it to expire, as every
    candidate does.
    """
    options.command_line_wins(params, "namespace", "all_namespaces")
    from kleader.cli import api_access, locate, status_view

    query, form = locate.query(params, argument), params["output"] or ""
    api_access.run(status_view.follow(query, form) if params["watch"] else status_view.once(query, form))
