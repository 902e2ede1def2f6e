"""The options that say which lock, where, and with what timings: the same for every command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kleader.cli.types import Duration, Label, LockType

if TYPE_CHECKING:
    from collections.abc import Callable

LOCK = (
    click.option(
        "--lock",
        "--leader-elect-resource-lock",
        "lock",
        type=LockType(),
        default="lease",
        show_default=True,
        metavar="TYPE",
        help="Kept in: lease (a Lease at the Kubernetes API), file or file:PATH (a file on this machine).",
    ),
    click.option(
        "--name",
        "--leader-elect-resource-name",
        "name",
        help="The lock's name; all candidates share it.  [default: the command's base name]",
    ),
    click.option(
        "-n",
        "--namespace",
        "--leader-elect-resource-namespace",
        "namespace",
        default="",
        help="The lock's namespace.  [default: POD_NAMESPACE, the service account's, the context's, default]",
    ),
    click.option("--identity", help="This candidate, unlike any other.  [default: HOSTNAME_UUID]"),
    click.option("--lock-label", "labels", type=Label(), multiple=True, help="A label for the lock object; repeatable."),
)

API = (
    click.option("--kubeconfig", default="", metavar="PATH", help="Instead of KUBECONFIG or the Pod's service account."),
    click.option("--context", default="", help="The kubeconfig context to use."),
    click.option("--cluster", default="", help="The kubeconfig cluster to use."),
    click.option("--user", default="", help="The kubeconfig user to use."),
    click.option("-s", "--server", "--master", "server", default="", metavar="URL", help="The API server's address."),
    click.option("--as", "impersonate", default="", metavar="USER", help="Act as this user (impersonation)."),
    click.option(
        "--request-timeout",
        type=Duration(),
        help="The longest that one request may take.  [default: half the renew deadline]",
    ),
)

TIMING = (
    click.option(
        "--lease-duration",
        "--leader-elect-lease-duration",
        "lease_duration",
        type=Duration(),
        default="15s",
        show_default=True,
        help="How long others wait for a leader that is silent; whole seconds count.",
    ),
    click.option(
        "--renew-deadline",
        "--leader-elect-renew-deadline",
        "renew_deadline",
        type=Duration(),
        default="10s",
        show_default=True,
        help="A leader that could not renew for so long stops.",
    ),
    click.option(
        "--retry-period",
        "--leader-elect-retry-period",
        "retry_period",
        type=Duration(),
        default="2s",
        show_default=True,
        help="Between two renewals; at least 1s.",
    ),
    click.option(
        "--loss-grace",
        type=Duration(),
        help="Between the stop signal and SIGKILL when leadership is lost.  [default: what fits, 3s at most]",
    ),
    click.option(
        "--kill-budget",
        type=Duration(),
        help="Allowed for SIGKILL to empty the tree.  [default: 500ms]",
    ),
    click.option(
        "--clock-skew",
        type=Duration(),
        help="Allowed for clocks of different rates.  [default: a tenth of the lease duration]",
    ),
)


def add(*groups: tuple[Any, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that adds groups of options in the order in which help shows them."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed([option for group in groups for option in group]):
            function = option(function)
        return function

    return decorate
