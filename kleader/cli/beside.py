"""The options of ``run`` about what runs, or is told, beside its command; and what is checked of them."""

from __future__ import annotations

import functools
import os
import shutil
from typing import Any

import click

from kleader.cli import types
from kleader.cli.option import option
from kleader.cli.say import NOT_EXECUTABLE, NOT_FOUND, fail
from kleader.cli.types import CommandLine, Duration, RoleLabel
from kleader.election.duration import text

beside = functools.partial(option, section="Beside the command")
_COMMANDS = ("standby", "on_new_leader", "health")

BESIDE = (
    beside(
        "--standby",
        type=CommandLine(),
        help="Run while this candidate does not lead: a warm replica, dead before the leading command starts.",
    ),
    beside(
        "--pod-label",
        type=RoleLabel(),
        help="Label this Pod by its role, so that a Service can select the leader: routing, never exclusion.",
    ),
    beside(
        "--on-new-leader",
        type=CommandLine(),
        help="Run for the first leader seen and every change, with KLEADER_LEADER set. There is no shell.",
    ),
    beside(
        "--health",
        type=CommandLine(),
        help="Whether this candidate is well: status 0. One that is not does not contend, a leader ends its term.",
    ),
    beside(
        "--health-period",
        type=Duration(),
        default="10s",
        show_default=True,
        help="Between two runs of --health, and the longest that one may take.",
    ),
    beside(
        "--health-failures",
        type=click.IntRange(1, 1000),
        metavar="N",
        default=3,
        show_default=True,
        help="So many failures in a row are believed.",
    ),
)


def checked(given: dict[str, Any], kind: str, remarks: list[str], *, elsewhere: bool) -> dict[str, Any]:
    """Their fields of the plan. Without an election there is nobody to be told of, and nothing to give up.

    ``elsewhere``: it is not this process that shall run. click.UsageError.
    """
    if given["health_period"] <= 0:
        msg = f"--health-period {text(given['health_period'])} must be more than 0s"
        raise click.UsageError(msg)
    found = {name: given[name] or [] for name in (*_COMMANDS, "pod_label")}
    if kind == "file" and found["pod_label"]:
        msg = "--pod-label: with --lock file there is no cluster that has the Pod; leave it out, or give another lock"
        raise click.UsageError(msg)
    for name in [name for name, value in found.items() if value and not kind]:
        remarks.append(f"--{name.replace('_', '-')} does nothing with --leader-elect=false")
        found[name] = []
    return {
        **found,
        "health_period": given["health_period"],
        "health_failures": given["health_failures"],
        "labelled": _pod() if found["pod_label"] and not elsewhere else [],
    }


def _pod() -> list[str]:
    """Which Pod this is. Nothing but the downward API is sure to know."""
    name = os.environ.get("POD_NAME", "")
    if not name:
        msg = "--pod-label needs the name of the Pod in POD_NAME: set it by the downward API, to metadata.name"
        raise click.UsageError(msg)
    namespace = types.namespace_name("POD_NAMESPACE", os.environ.get("POD_NAMESPACE", ""))
    return [namespace, types.object_name(name, "POD_NAME"), os.environ.get("POD_UID", "")]


def check_command(name: str) -> None:
    """Found out before the lock is touched, as far as looking can tell."""
    if shutil.which(name):
        return
    named = os.sep in name
    places = [name] if named else [os.path.join(place, name) for place in os.get_exec_path()]
    if not any(os.path.exists(place) for place in places):
        fail(f"cannot execute {name}: {'no such file' if named else 'not found in PATH'}", NOT_FOUND)
    why = "it is a directory" if os.path.isdir(name) else "permission denied: chmod +x it, or name an interpreter"
    fail(f"cannot execute {name}: {why}", NOT_EXECUTABLE)
