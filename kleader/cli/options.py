"""How options look, and all of ``run``'s in groups: there is one declaration of each, whichever commands take it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import click

from kleader.cli.beside import BESIDE
from kleader.cli.option import option
from kleader.cli.types import Address, Duration, Label, LockType, Signal, Switch, Verbosity, Version, header

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

CLUSTER = "Kubernetes API"
LOSS_EXIT_CODE = 255  # glog.Fatalf's


lock = functools.partial(option, section="Lock")
api = functools.partial(option, section=CLUSTER)
timing = functools.partial(option, section="Timings")
election = functools.partial(option, section="Election")
of_command = functools.partial(option, section="Command")
watched = functools.partial(option, section="Being watched")
messages = functools.partial(option, section="Messages")
workload = functools.partial(option, section="Workload")
printing = functools.partial(option, section="Output")
asking = functools.partial(option, section="Asking")


def kind(**attributes: Any) -> Callable[..., Any]:  # noqa: ANN401 - click's own
    """A decorator for --lock, with what differs from command to command."""
    usual: dict[str, Any] = {"default": "lease", "show_default": True}
    return lock(
        "--lock",
        "--leader-elect-resource-lock",
        "lock",
        type=LockType(),
        metavar="TYPE",
        help="lease: a Lease at the Kubernetes API. configmap, endpoints: an annotation there, as client-go before"
        " 0.24 kept it. configmapsleases, endpointsleases: both, to get from the one to the other. leader-for-life: a"
        " ConfigMap that this Pod owns, as operator-lib has it. file or file:PATH: a file on this machine.",
        **usual | attributes,
    )


def name(**attributes: Any) -> Callable[..., Any]:  # noqa: ANN401 - click's own
    """A decorator for --name, with what differs from command to command."""
    usual: dict[str, Any] = {"metavar": "NAME", "help": "Shared by all candidates for this lock."}
    return lock("--name", "--leader-elect-resource-name", "name", **usual | attributes)


NAMESPACE = lock(
    "-n",
    "--namespace",
    "--leader-elect-resource-namespace",
    "namespace",
    default="",
    metavar="NAMESPACE",
    show_default="POD_NAMESPACE, the service account's, the context's, default",
    help="Where the lock is.",
)

LOCK = (
    kind(),
    name(show_default="the command's base name"),
    NAMESPACE,
    lock("--identity", metavar="ID", show_default="HOSTNAME_UUID", help="This candidate, unlike any other."),
    lock(
        "--lock-label",
        "lock_label",
        type=Label(),
        multiple=True,
        help="A label for the lock's objects; may be repeated.",
    ),
    lock(
        "--force",
        is_flag=True,
        help="With endpoints, endpointsleases: take the lock although a Service of its name loses its EndpointSlices.",
    ),
    lock(
        "--coordinated",
        is_flag=True,
        help="With lease: the control plane names the leader, the candidate with the oldest emulation version"
        " (KEP-4355); plain election where the cluster has no such thing.",
    ),
    lock(
        "--binary-version",
        type=Version(),
        metavar="VERSION",
        help="With --coordinated, which needs it: this program's version, such as 1.36.0.",
    ),
    lock(
        "--emulation-version",
        type=Version(),
        metavar="VERSION",
        show_default="the binary version",
        help="With --coordinated: the version as which it behaves.",
    ),
)

ROAD = (
    api(
        "--kubeconfig",
        default="",
        metavar="PATH",
        show_default="KUBECONFIG, the Pod's service account, ~/.kube/config",
        help="How to reach the cluster.",
    ),
    api("--context", default="", metavar="NAME", help="The kubeconfig's context to use."),
    api("--cluster", default="", metavar="NAME", help="The kubeconfig's cluster to use."),
    api("--user", default="", metavar="NAME", help="The kubeconfig's user to use."),
    api("-s", "--server", "--master", "server", default="", metavar="URL", help="The API server's address."),
    api("--as", "as", default="", metavar="USER", help="Act as this user (impersonation)."),
)


def request_timeout(**attributes: Any) -> Callable[..., Any]:  # noqa: ANN401 - click's own
    """A decorator for --request-timeout, with what differs from command to command."""
    return api("--request-timeout", type=Duration(), **attributes)


API = (
    *ROAD,
    request_timeout(
        show_default="half the renew deadline",
        help="The longest that one request may take; no more than the default.",
    ),
)

# Of commands that take no part.
LOOKING = (
    *ROAD,
    request_timeout(default="5s", show_default=True, help="The longest that one request may take."),
)

ANSWER = printing(
    "-o",
    "--output",
    "output",
    type=click.Choice(("json", "yaml", "name")),
    default=None,
    show_default="a line",
    help="How to print what then is so: json, yaml: all that is known; name: as kubectl takes it.",
)

TIMING = (
    timing(
        "--lease-duration",
        "--leader-elect-lease-duration",
        "lease_duration",
        type=Duration(),
        default="15s",
        show_default=True,
        help="For how long a leader that is silent keeps the lock; whole seconds count.",
    ),
    timing(
        "--renew-deadline",
        "--leader-elect-renew-deadline",
        "renew_deadline",
        type=Duration(),
        default="10s",
        show_default=True,
        help="A leader that could not renew for so long stops its command.",
    ),
    timing(
        "--retry-period",
        "--leader-elect-retry-period",
        "retry_period",
        type=Duration(),
        default="2s",
        show_default=True,
        help="Between two renewals; at least 1s.",
    ),
    timing(
        "--loss-grace",
        type=Duration(),
        show_default="what fits, at most 3s",
        help="Between the stop signal and SIGKILL when leadership is lost.",
    ),
    timing(
        "--kill-budget",
        type=Duration(),
        show_default="500ms",
        help="Allowed for SIGKILL to end the command and all of its descendants.",
    ),
    timing(
        "--clock-skew",
        type=Duration(),
        show_default="a tenth of the lease duration",
        help="Allowed for clocks that run at different rates.",
    ),
)

ELECTION = (
    election(
        "--leader-elect",
        is_flag=False,
        flag_value="true",
        default="true",
        type=Switch(),
        metavar="[true|false]",
        help="false: run the command at once, with no election, as kube-controller-manager does.",
    ),
    election(
        "--wait",
        type=Duration(["live"]),
        show_default="for ever",
        help="Give up acquiring after so long, with status 124. live: on the first renewal that is seen; with 125 when"
        " the API server has not answered for a lease duration.",
    ),
    election("--no-wait", is_flag=True, help="Try to acquire once: --wait 0."),
    election(
        "--on-loss",
        type=click.Choice(["exit", "wait"]),
        default="exit",
        show_default=True,
        help="When leadership is lost: exit, or become a candidate again.",
    ),
    election(
        "--loss-exit-code",
        type=click.IntRange(0, 255),
        metavar="STATUS",
        default=LOSS_EXIT_CODE,
        show_default=True,
        help="The exit status when leadership is lost.",
    ),
    election("--no-release", is_flag=True, help="Leave the lock to run out at the end, instead of releasing it."),
    election(
        "--release", is_flag=True, help="Release the lock at the end: with leader-for-life it stays with the Pod."
    ),
)

COMMAND = (
    of_command(
        "--restart",
        type=click.Choice(["no", "on-failure", "always"]),
        default="no",
        metavar="WHEN",
        show_default=True,
        help="no, on-failure or always: start a command that ended again while leading, with backoff.",
    ),
    of_command("--until-empty", is_flag=True, help="The command has ended only when all of its descendants have."),
    of_command(
        "--stop-signal",
        type=Signal(),
        metavar="SIGNAL",
        show_default="the one received, else TERM",
        help="How to ask the command to stop.",
    ),
    of_command(
        "--stop-signal-to",
        type=click.Choice(["main", "group"]),
        default="main",
        show_default=True,
        help="Ask the main process alone, or its process group.",
    ),
    of_command(
        "--stop-timeout",
        type=Duration(),
        default="25s",
        show_default=True,
        help="How long a command that was asked to stop may take before SIGKILL.",
    ),
)

WATCHED = (
    watched(
        "--http",
        type=Address(),
        metavar="ADDR:PORT",
        help="Answer /healthz, /readyz, /leader and /metrics there; :PORT for all addresses.",
    ),
    watched(
        "--state-file",
        default="",
        metavar="PATH",
        help="Keep role, token and deadlines there as JSON, replaced at each renewal and change.",
    ),
)

MESSAGES = (
    messages("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="On stderr."),
    messages(
        "-v",
        "--v",
        "v",
        is_flag=False,
        flag_value="1",
        default="0",
        type=Verbosity(),
        help="Say more; N is a level, as in -v=4.",
    ),
    messages("-q", "--quiet", "quiet", is_flag=True, help="Say only what went wrong."),
)

RUN = (LOCK, API, TIMING, ELECTION, COMMAND, BESIDE, WATCHED, MESSAGES)


def add(*groups: tuple[Any, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that adds groups of options in the order in which help shows them."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for each in reversed([each for group in groups for each in group]):
            function = each(function)
        return function

    return decorate


def of_run(without: Collection[str] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that adds all options of ``run`` but those ``without``, by the names of their values.

    Each is read from the variable that ``run`` reads, so that what is set for that holds for who speaks of it too.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        own = list(getattr(function, "__click_params__", ()))
        params = add(*RUN)(function).__click_params__  # type: ignore[attr-defined]
        kept = [param for param in params if param in own or param.name not in without]
        for param in kept[len(own) :]:
            param.of_run = True
            param.envvar = f"KLEADER_RUN_{param.name.upper()}"
        function.__click_params__ = kept  # type: ignore[attr-defined]
        return function

    return decorate


def access(given: dict[str, Any]) -> dict[str, str]:
    """What ROAD's options say, as kleader.locks.credentials takes it; click.UsageError."""
    named = {key: given[key] for key in ("kubeconfig", "context", "cluster", "user", "server")}
    return named | {"as": header("--as", given["as"])}


def prevail(given: dict[str, Any], one: str, other: str) -> None:
    """Of two contrary options, let the command line's win over the environment's. click.UsageError otherwise."""
    if not given[one] or not given[other]:
        return
    context = click.get_current_context()
    source = context.get_parameter_source
    if source(one) is source(other):
        names = (next(param.opts[0] for param in context.command.params if param.name == each) for each in (one, other))
        msg = f"{' and '.join(names)} exclude each other: leave one out"
        raise click.UsageError(msg)
    given[other if source(one) is click.core.ParameterSource.COMMANDLINE else one] = None
