"""The options that several commands take, and what makes options; those of ``run`` alone are in run_options.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kleader.cli import types
from kleader.cli.command_line import section

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

CLUSTER = "Kubernetes API"

FILE: dict[str, Any] = {"type": click.Path(), "default": "", "metavar": "PATH"}

lock = section("Lock")
output = section("Output")
request = section("Request")
workload = section("Workload")
api = section(CLUSTER, brief=False)


def completed_by(kind: str) -> dict[str, Any]:
    """Completion by names of the kubeconfig or the cluster."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[Any]:
        from kleader.cli import completion_names

        # click does not parse arguments before an option without a value
        argument = ctx.params.get("argument") or next(iter(ctx.args), None)
        return completion_names.names(kind, ctx.params | {"argument": argument}, incomplete)

    return {"metavar": "NAME", "shell_complete": complete}


def one_of(*words: str) -> dict[str, Any]:
    """One of these words, by default the first."""
    return {"type": click.Choice(words), "default": words[0]}


def words(words: Iterable[str]) -> dict[str, Any]:
    """Completion by these words."""
    return {"shell_complete": lambda _ctx, _param, incomplete: [word for word in words if word.startswith(incomplete)]}


def lock_argument(*, required: bool = True) -> Decorator:
    """A decorator for NAME, the lock's name, which may also be given as --name."""
    attributes = completed_by("leases") | {"metavar": "NAME" if required else "[NAME]"}
    return click.argument("argument", type=types.object_name, required=False, **attributes)


def lock_type(**attributes: Any) -> Decorator:  # noqa: ANN401 - click's
    """A decorator for --lock; the attributes are those that differ between commands."""
    return lock(
        "--lock --leader-elect-resource-lock --leader-elect-lock lock",
        "lease, file, file:PATH and others. lease: a Lease object. file or file:PATH: a file on this machine."
        " configmap, endpoints: an annotation, as in client-go before 0.24. configmapsleases, endpointsleases: two"
        " objects, to migrate from one to the other. leader-for-life: a ConfigMap that this Pod owns, as in"
        " operator-lib.",
        **{"type": types.lock, "metavar": "TYPE", "default": "lease", **words(types.LOCKS), **attributes},
    )


def lock_name(help: str = "The name of the lock, in place of the argument NAME.", **attributes: Any) -> Decorator:  # noqa: A002, ANN401 - click's
    """A decorator for --name; the attributes are those that differ between commands."""
    return lock(
        "--name --leader-elect-resource-name name", help, type=types.object_name, **completed_by("leases"), **attributes
    )


NAMESPACE = lock(
    "-n --namespace --leader-elect-resource-namespace namespace",
    "The namespace of the lock.",
    type=types.namespace,
    default="",
    show_default="the context's, POD_NAMESPACE, the service account's, default",
    **completed_by("namespaces"),
)

CONNECTION = (
    api(
        "--kubeconfig",
        "The kubeconfig file.",
        show_default="KUBECONFIG, the Pod's service account, ~/.kube/config",
        **FILE,
    ),
    api("--context", "The context of the kubeconfig.", default="", **completed_by("contexts")),
    api("--cluster", "The cluster of the kubeconfig.", default="", **completed_by("clusters")),
    api("--user", "The user of the kubeconfig.", default="", **completed_by("users")),
    api("-s --server --master server", "The URL of the API server.", default="", metavar="URL"),
    api("--as as", "The user to act as (impersonation).", type=types.header, default="", metavar="USER"),
)

# Of commands that are no candidates.
CLIENT = (
    *CONNECTION,
    api("--request-timeout", "The longest that one request may take.", type=types.duration, default="5s"),
)

# Of commands about one lock.
ONE_LOCK = (
    (lock_type(), lock_name(), NAMESPACE),
    CLIENT,
    (
        output(
            "-o --output output",
            "How to print the result. json, yaml: everything that is known. name: as kubectl takes it.",
            type=click.Choice(("json", "yaml", "name")),
            show_default="a line",
        ),
    ),
)


def groups(*groups: tuple[Decorator, ...]) -> Decorator:
    """A decorator that adds groups of options."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed([decorator for group in groups for decorator in group]):
            function = decorator(function)
        return function

    return decorate


def command_line_wins(params: dict[str, Any], one: str, other: str) -> None:
    """Of two options that exclude each other, drop the environment's. click.UsageError if both are in one place."""
    if not params[one] or not params[other]:
        return
    context = click.get_current_context()
    source = context.get_parameter_source
    if source(one) is source(other):
        names = (next(param.opts[0] for param in context.command.params if param.name == name) for name in (one, other))
        msg = f"{' and '.join(names)} exclude each other: leave one out"
        raise click.UsageError(msg)
    params[other if source(one) is click.core.ParameterSource.COMMANDLINE else one] = None
