"""``kleader manifest``: the objects that run a command with a hot standby in a cluster, for ``kubectl apply``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kleader.cli import api_access, options, types, workload
from kleader.cli.command_line import CommandRunner, Option
from kleader.cli.console import warn
from kleader.cli.plan_from_params import make_plan
from kleader.cli.run_options import run_options

if TYPE_CHECKING:
    from kleader.ipc.plan import Plan

# Options that say how this machine reaches the cluster, would be the same in every Pod, or are for a run that ends.
NOT_IN_A_POD: dict[str, Any] = {
    **dict.fromkeys(("kubeconfig", "context", "cluster", "user", "server", "as"), ""),
    "identity": None,
    "leader_elect": True,
    "notify": "kleader",
    "wait": None,
    "no_wait": False,
    "once": None,
    "once_per": None,
    "once_after": "success",
    "once_exit_code": 0,
}
_RISK = (
    "--pod-label: the Role may patch every Pod of the namespace, and a patch can replace a Pod's image: use a namespace"
    " in which no Pod has more permissions than these, see kleader-manifest(1)"
)
_MAX_NAME = 63  # characters of a label's value, and of a Pod's host name

EPILOG = """
\b
Examples:
  kleader manifest --image example/worker:1 -- ./worker | kubectl apply -f -
"""


@click.command(cls=CommandRunner, options_metavar="[OPTIONS] -- COMMAND [ARG]...", epilog=EPILOG)
@options.groups(
    (
        options.workload(
            "--image",
            "The container's image, which contains COMMAND, and kleader unless --inject is given.",
            metavar="IMAGE",
            show_default="a placeholder",
        ),
        options.workload(
            "--inject",
            "The image of kleader: an init container copies kleader from it, so that --image need not contain any.",
            metavar="IMAGE",
        ),
        options.workload(
            "--image-volume",
            "With --inject: mount the image of kleader instead of copying it; needs Kubernetes 1.35 or a feature gate.",
            is_flag=True,
            brief=False,
        ),
        options.workload(
            "--replicas",
            "The number of Pods: one leads, the others stand by.",
            type=click.IntRange(1, 100),
            metavar="N",
            default=2,
        ),
        options.workload(
            "--cpu", "The processor time that each container requests.", type=types.quantity, default="50m", brief=False
        ),
        options.workload(
            "--memory",
            "The memory that each container requests. kleader itself takes about 40Mi.",
            type=types.quantity,
            default="128Mi",
        ),
        options.workload(
            "--run-as-user",
            "The user and group of the container's processes. none: those of the image, which may be root.",
            type=types.uid,
            metavar="UID|none",
            default=str(workload.NOBODY),
            brief=False,
        ),
        options.workload("--writable-root", "Let the container write everywhere, not only to /tmp.", is_flag=True),
        options.workload(
            "--flow-schema",
            "Also print a FlowSchema, which keeps the election's requests ahead of load. A cluster administrator has"
            " to apply it.",
            is_flag=True,
            brief=False,
        ),
        options.workload(
            "--kube-version",
            "The cluster's version. Fields that it does not know are left out; objects that it does not know are"
            " refused.",
            type=types.minor_version,
            metavar="1.N",
            show_default="1.29 or newer",
            brief=False,
        ),
    )
)
@run_options(without=NOT_IN_A_POD)
def manifest(command: tuple[str, ...], **params: Any) -> None:  # noqa: ANN401 - click's
    """Print the YAML that runs COMMAND with a hot standby.

    kubectl applies it: ServiceAccount, Role with the permissions that the lock needs, RoleBinding, Deployment,
    PodDisruptionBudget. COMMAND can write only to /tmp, unless --writable-root is given. The options of run are those
    of the run in the Pods.
    """
    from kleader.cli.yaml_output import as_yaml

    if params["lock"][0] == "file":
        raise click.UsageError("--lock file does not work between Pods, which share no file: choose another lock type")
    plan, warnings = make_plan(list(command), {**params, **NOT_IN_A_POD}, for_pods=True)
    _check(plan, params["image"], params["inject"])
    _check_version(params["kube_version"], flow_schema=params["flow_schema"])
    if params["image_volume"] and params["inject"] is None:
        raise click.UsageError("--image-volume needs --inject IMAGE: it says how that image is mounted")
    for warning in [*warnings, _RISK] if plan.pod_label else warnings:
        warn(warning)
    image = params["image"] or f"registry.example/{plan.name}"
    if params["image"] is None:
        warn(f"the image {image} is a placeholder: give --image")
    pods = workload.Workload(image, *(params[name] for name in workload.Workload._fields[1:]))
    plan = plan._replace(namespace=plan.namespace or api_access.default_namespace())
    objects = workload.objects(plan, _run_arguments(plan), pods)
    if params["flow_schema"]:
        objects.append(workload.flow_schema(plan))
    click.echo(as_yaml(*objects), nl=False)


def _check(plan: Plan, image: str | None, inject: str | None) -> None:
    if len(plan.name) > _MAX_NAME:
        rule = f"{_MAX_NAME} characters at most"
        raise click.UsageError(f"--name {plan.name} is too long to name the Pods of a Deployment: {rule}")
    for option, name in (("--image", image), ("--inject", inject)):
        if name is not None and (not name.isprintable() or not name.strip() or name != name.strip()):
            raise click.UsageError(f"{option} {name!r} is not the name of an image")
    host, _, port = plan.http.rpartition(":")
    if plan.http and (host not in {"", "0.0.0.0", "[::]"} or port == "0"):  # noqa: S104 - is compared
        why = "the kubelet asks at the Pod's own address and at a fixed port"
        raise click.UsageError(f"--http {plan.http}: {why}: give it as :8080")
    try:
        "".join(plan.command).encode()
    except UnicodeEncodeError:
        raise click.UsageError("the command is not UTF-8 text, so YAML cannot express it") from None


def _check_version(minor: int | None, *, flow_schema: bool) -> None:
    what, needed = ("--flow-schema", 29) if flow_schema else ("a PodDisruptionBudget of policy/v1", 21)
    if minor is not None and minor < needed:
        raise click.UsageError(f"--kube-version 1.{minor}: {what} needs Kubernetes 1.{needed}")


def _run_arguments(plan: Plan) -> list[str]:
    """The options of ``run`` that were given, and the name of the lock, which must not change with the command."""
    context = click.get_current_context()
    arguments = [f"--name={plan.name}"]
    for param in context.command.params:
        if isinstance(param, Option) and param.of_run and param.name not in {"name", "namespace"}:
            arguments += param.arguments(context)
    return arguments
