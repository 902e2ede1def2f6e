"""``kleader manifest``: what a cluster has to be given so that a run has its standby, as YAML for ``kubectl apply``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kleader.cli import options, workload
from kleader.cli.command import CommandRunner
from kleader.cli.option import Option
from kleader.cli.run import make_plan
from kleader.cli.say import remark

if TYPE_CHECKING:
    from kleader.link.plan import Plan

# What says how this machine reaches the cluster, or would be the same in every Pod, or would end one that waits.
NOT_IN_A_POD: dict[str, Any] = {
    **dict.fromkeys(("kubeconfig", "context", "cluster", "user", "server", "as"), ""),
    "identity": None,
    "leader_elect": True,
    "wait": None,
    "no_wait": False,
}
_LONGEST_NAME = 63  # characters of a label's value, and of a Pod's host name

EPILOG = """
\b
Examples:
  kleader manifest --image example/beat:1 -- ./beat | kubectl apply -f -
"""


@click.command(cls=CommandRunner, options_metavar="[OPTIONS] -- COMMAND [ARG]...", epilog=EPILOG)
@options.workload(
    "--image",
    metavar="IMAGE",
    show_default="a placeholder",
    help="The container's image: COMMAND and kleader are in it.",
)
@options.workload(
    "--replicas",
    type=click.IntRange(1, 100),
    metavar="N",
    default=2,
    show_default=True,
    help="How many Pods: one leads, the others stand by.",
)
@options.workload(
    "--flow-schema",
    is_flag=True,
    help="Also a FlowSchema that keeps the election's requests ahead of load; needs a cluster's administrator.",
)
@options.of_run(without=NOT_IN_A_POD)
def manifest(command: tuple[str, ...], image: str | None, replicas: int, flow_schema: bool, **given: Any) -> None:  # noqa: ANN401, FBT001 - click's
    """Print what runs COMMAND in a cluster with a hot standby, for kubectl to apply.

    ServiceAccount, Role with the least that the lock needs, RoleBinding, Deployment, PodDisruptionBudget. The options
    of run are those that it shall have there.
    """
    from kleader.cli.output import as_yaml

    if given["lock"][0] == "file":
        msg = "--lock file: its candidates share one machine's file, which Pods do not have; give a lock at the API"
        raise click.UsageError(msg)
    plan, remarks = make_plan(list(command), {**given, **NOT_IN_A_POD}, elsewhere=True)
    _check(plan, image)
    for each in remarks:
        remark(each)
    if image is None:
        image = f"registry.example/{plan.name}"
        remark(f"the image {image} is a placeholder: give --image")
    plan = plan._replace(namespace=plan.namespace or "default")
    objects = workload.objects(plan, _options(plan), image, replicas)
    if flow_schema:
        objects.append(workload.flow_schema(plan))
    click.echo(as_yaml(*objects), nl=False)


def _check(plan: Plan, image: str | None) -> None:
    if len(plan.name) > _LONGEST_NAME:
        msg = f"--name {plan.name} is too long to name a Deployment's Pods by: {_LONGEST_NAME} characters at most"
        raise click.UsageError(msg)
    if image is not None and (not image.isprintable() or not image.strip() or image != image.strip()):
        msg = f"--image {image!r} is not the name of an image"
        raise click.UsageError(msg)
    host, _, port = plan.http.rpartition(":")
    if plan.http and (host not in {"", "0.0.0.0", "[::]"} or port == "0"):  # noqa: S104 - is compared
        msg = f"--http {plan.http}: the kubelet asks at the Pod's own address, and at one port: give it as :8080"
        raise click.UsageError(msg)
    try:
        "".join(plan.command).encode()
    except UnicodeEncodeError:
        msg = "the command is not text (UTF-8), and YAML has no other way to write it"
        raise click.UsageError(msg) from None


def _options(plan: Plan) -> list[str]:
    """What was given of ``run``'s options, written out, and the lock's name, which must not follow the command's."""
    context = click.get_current_context()
    written = [f"--name={plan.name}"]
    for param in context.command.params:
        if isinstance(param, Option) and param.of_run and param.name not in {"name", "namespace"}:
            written += param.written(context)
    return written
