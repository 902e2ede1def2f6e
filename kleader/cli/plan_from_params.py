"""The plan of a run, made from the checked options."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import uuid
from typing import Any, cast

import click

from kleader import system
from kleader.cli import api_access, ignored, monitoring, options, types
from kleader.cli.command_line import Option
from kleader.election import timing
from kleader.election.duration import text
from kleader.election.record import MAX_DURATION_SECONDS
from kleader.ipc.plan import FOR_LIFE, Plan, Pod
from kleader.locks import file_lock
from kleader.locks.base import CANDIDATES

_MAX_NAME = 253  # characters
_MAX_SUFFIX = 12
_IN_POD = "KUBERNETES_SERVICE_HOST"  # the kubelet gives it to every container
# Interpreters, shells, and programs that run other programs.
_WRAPPERS = re.compile(
    r"python.*|(pypy|ruby|perl|php|lua|luajit|node|nodejs|deno|bun|java|tclsh|wish|guile)-?[\d.]*"
    r"|dotnet|mono|erl|iex|elixir|mix|racket|Rscript|julia|groovy|scala|clojure|[gmn]?awk"
    r"|(a|ba|c|da|k|mk|nu|o|pw|rba|t?c|x?on|y|z|fi)?sh(-?[\d.]+)?|busybox|toybox|env|sudo|su|doas|run0|pkexec|nice|ionice"
    r"|chrt|taskset|nohup|setsid|stdbuf|time|timeout|unbuffer|xargs|parallel|exec|command|chroot|unshare|nsenter|setpriv"
    r"|capsh|gosu|su-exec|runuser|tini|dumb-init|catatonit|flock|numactl|prlimit|choom|script|strace|ltrace|gdb|valgrind"
    r"|perf|npx|npm|yarn|pnpm|bunx|uv|uvx|pipx|pdm|poetry|pipenv|conda|mamba|bundle|rake|make|go|cargo|mvn|gradle|sbt"
    r"|docker|podman|nerdctl|kubectl|ssh|screen|tmux|systemd-run|firejail|bwrap|fakeroot|faketime|watch|entr|kleader|s6-\w+"
)
# Fields of the plan that have the value of the option of the same name.
_SAME = (
    *("force", "busy_exit_code", "on_loss", "loss_exit_code", "restart", "until_empty", "stop_timeout"),
    *("health_period", "health_failures", "notify", "log_format", "once_exit_code"),
)
_NO_POD = Pod("", "", "")
_HOOKS = ("standby", "on_new_leader", "on_end", "health", "pod_label")


def make_plan(command: list[str], params: dict[str, Any], *, for_pods: bool = False) -> tuple[Plan, list[str]]:
    """Check the options; return the plan and warnings about them. click.UsageError: exit status 2. LockFileError.

    ``for_pods``: Pods will run it, so the environment of this process says nothing about them.
    """
    for one, other in (("wait", "no_wait"), ("v", "quiet"), ("release", "no_release")):
        options.command_line_wins(params, one, other)
    run = cast("click.Group", click.get_current_context().find_root().command).commands["run"]
    warnings = list(ignored.warnings({str(param.envvar) for param in run.params if isinstance(param, Option)}))
    times = timings(params)
    lock, path = params["lock"] if params["leader_elect"] else ("", "")
    once = _once(params, lock, warnings)
    namespace, pod_namespace = params["namespace"], types.variable("POD_NAMESPACE", types.namespace)
    name = _name(params["name"], lock, path, command[0], warnings)
    if name.startswith(CANDIDATES) and lock not in {"", "file"}:
        of = name.removeprefix(CANDIDATES)
        raise click.UsageError(f"--name {name} names the list of the candidates for the lock {of}: choose another name")
    if lock == FOR_LIFE and not for_pods:  # a Pod owns nothing in another namespace
        namespace = namespace or pod_namespace
    if lock == "file":
        namespace = namespace or pod_namespace or "default"
        path = path or file_lock.default_path(namespace, name)
        if params["no_release"]:
            raise click.UsageError("--no-release: a file lock ends with its processes; leave the option out")
        if unused := _cluster_options(params):
            warnings.append(f"--lock file uses no cluster: leave out {', '.join(unused)}, or choose another lock type")
    if params["force"] and lock and not lock.startswith("endpoints"):
        warnings.append(f"--force does nothing with --lock {lock}: it is for endpoints and endpointsleases")
    identity = _default_identity() if params["identity"] is None else params["identity"]
    wait = 0.0 if params["no_wait"] else None if params["wait"] == types.LIVE else params["wait"]
    if lock not in {"", "file", FOR_LIFE} and wait and wait <= times.lease_duration:
        warnings.append(
            f"--wait {text(wait)} is not longer than the lease duration {text(times.lease_duration)}:"
            " the lock of a leader that crashed cannot be acquired in that time"
        )
    plan = Plan(
        command=command,
        path=[place for place in sys.path if place and os.path.isabs(place)],
        started=system.clock(),
        lock=lock,
        namespace=namespace,
        name=name,
        file=path,
        identity=identity,
        labels=dict(params["lock_label"]),
        registers=not params["no_register"],
        priority=params["priority"],
        coordinated=_coordinated(params, lock, identity, warnings),
        binary_version=params["binary_version"] or "",
        emulation_version=params["emulation_version"] or params["binary_version"] or "",
        strategy=params["coordinated_strategy"],
        api=api_access.access(params),
        timing=times,
        request_timeout=_request_timeout(params["request_timeout"], times),
        wait=wait,
        live=params["wait"] == types.LIVE and not params["no_wait"],
        **once,
        release=bool(params["release"]) if lock == FOR_LIFE else not params["no_release"],
        stop_signal=_stop_signal(params["stop_signal"]),
        stop_group=params["stop_signal_to"] == "group",
        **_hooks(params, lock, warnings),
        pod=_NO_POD if for_pods else _own_pod(params, lock, namespace),
        http=monitoring.address_text(*params["http"]) if params["http"] else "",
        http_fd=-1,
        state_file=os.path.abspath(params["state_file"]) if params["state_file"] else "",
        metrics_file=os.path.abspath(params["metrics_file"]) if params["metrics_file"] else "",
        verbosity=0 if params["quiet"] else 1 + (params["v"] or 0),
        log_suffix=_log_suffix(identity) if params["identity"] is not None or _IN_POD in os.environ else "",
        **{name: params[name] for name in _SAME},
    )
    return plan, warnings


def timings(params: dict[str, Any]) -> timing.Timing:
    """The checked timings; click.UsageError shows the sum that does not fit."""
    given = [params[name] for name in ("lease_duration", "renew_deadline", "retry_period")]
    try:
        times = timing.choose(*given, grace=params["loss_grace"], kill=params["kill_budget"], skew=params["clock_skew"])
    except timing.TimingError as error:
        raise click.UsageError(str(error)) from None
    if times.kill <= 0:
        raise click.UsageError(
            f"kill budget {text(times.kill)} is too short, because SIGKILL takes time: the default is 500ms"
        )
    if times.lease_duration > MAX_DURATION_SECONDS:
        limit = text(MAX_DURATION_SECONDS)
        raise click.UsageError(f"lease duration {text(times.lease_duration)} is longer than a year: {limit} at most")
    return times


def _cluster_options(params: dict[str, Any]) -> list[str]:
    """The long names of the options that were given and that only a cluster gives a meaning."""
    known = [param for param in click.get_current_context().command.params if isinstance(param, Option)]
    for_cluster = [param for param in known if param.section == options.CLUSTER or param.name == "lock_label"]
    return [max(param.opts, key=len) for param in for_cluster if params[str(param.name)]]


def _coordinated(params: dict[str, Any], lock: str, identity: str, warnings: list[str]) -> bool:
    """Whether the control plane names the leader."""
    binary, emulation = params["binary_version"], params["emulation_version"]
    unused = {"binary-version": binary, "emulation-version": emulation}
    unused["coordinated-strategy"] = params["coordinated_strategy"] != types.STRATEGY
    if lock and not params["coordinated"]:
        warnings += [f"--{name} does nothing without --coordinated" for name, value in unused.items() if value][:1]
    if not lock or not params["coordinated"]:
        return False
    if lock != "lease":
        raise click.UsageError(
            f"--coordinated does not work with --lock {lock}: the control plane chooses leaders only of Leases"
        )
    if not binary:
        raise click.UsageError("--coordinated needs --binary-version: the control plane chooses the leader by versions")
    if emulation and types.precedence(emulation) > types.precedence(binary):
        raise click.UsageError(f"--emulation-version {emulation} is newer than --binary-version {binary}")
    if not types.is_candidate_name(identity):
        rule = "letters, digits, -, . and _ only, 253 at most, neither . alone nor .. first"
        raise click.UsageError(f"--identity cannot name a LeaseCandidate, as --coordinated requires: {rule}")
    return True


def _once(params: dict[str, Any], lock: str, warnings: list[str]) -> dict[str, Any]:
    """The fields of --once and --once-per."""
    key, per, after_any = params["once"], params["once_per"], params["once_after"] == "any"
    given = [name for name, value in (("--once", key), ("--once-per", per)) if value is not None]
    if not given and (after_any or params["once_exit_code"]):
        option = "--once-after" if after_any else "--once-exit-code"
        warnings.append(f"{option} does nothing without --once or --once-per")
    if given:
        reasons = {
            "without an election no lock records a run; leave --leader-elect=false out": not lock,
            f"the ConfigMap of --lock {FOR_LIFE} is deleted with its Pod, and with it the record of a run; choose"
            " another lock type": lock == FOR_LIFE,
            "it is for a command that ends; leave --standby out": params["standby"],
            "it must be more than 0s": per is not None and per <= 0,
        }
        for reason in (reason for reason, applies in reasons.items() if applies):
            raise click.UsageError(f"{given[-1]}: {reason}")
    return {"once": key or "", "once_per": per or 0.0, "once_after_any": after_any}


def _request_timeout(given: float | None, times: timing.Timing) -> float:
    limit = times.request_timeout
    if given is not None and not 0 < given <= limit:
        rule = f"it must be more than 0s, and at most half the renew deadline, {text(limit)}"
        raise click.UsageError(f"--request-timeout {text(given)}: {rule}")
    return limit if given is None else given


def _stop_signal(number: int | None) -> int:
    if number in {signal.SIGKILL, signal.SIGSTOP}:
        raise click.UsageError(
            f"--stop-signal {signal.Signals(number).name}: a process cannot handle it; choose another signal"
        )
    return number or 0


def _hooks(params: dict[str, Any], lock: str, warnings: list[str]) -> dict[str, Any]:
    """The plan's hooks. Without an election none has a meaning."""
    if params["health_period"] <= 0:
        raise click.UsageError(f"--health-period {text(params['health_period'])} must be more than 0s")
    if lock == "file" and params["pod_label"]:
        raise click.UsageError("--pod-label needs a cluster: leave it out, or choose another lock than --lock file")
    found = {name: params[name] or [] for name in _HOOKS}
    for name in [name for name, value in found.items() if value and not lock]:
        warnings.append(f"--{name.replace('_', '-')} does nothing with --leader-elect=false")
        found[name] = []
    return found


def _own_pod(params: dict[str, Any], lock: str, namespace: str) -> Pod:
    """The Pod of this process. click.UsageError where an option needs it, and the downward API does not tell it."""
    place, name = types.variable("POD_NAMESPACE", types.namespace), os.environ.get("POD_NAME", "")
    needed_by = f"--lock {FOR_LIFE}" if lock == FOR_LIFE else "--pod-label" if params["pod_label"] and lock else ""
    if needed_by and not types.variable("POD_NAME", types.object_name):
        hint = "set it by the downward API, to metadata.name"
        raise click.UsageError(f"{needed_by} needs the variable POD_NAME, the name of the Pod: {hint}")
    if lock == FOR_LIFE and place and namespace != place:
        where = f"the namespace of its Pod, {place} (POD_NAMESPACE)"
        raise click.UsageError(f"--lock {FOR_LIFE} does not take -n {namespace}: its ConfigMap is in {where}")
    return Pod(place, name, os.environ.get("POD_UID", "")) if name else _NO_POD


def _name(given: str | None, lock: str, path: str, command: str, warnings: list[str]) -> str:
    """The name of the lock; "" without an election. That of a lock file only names it: the path is the lock."""
    if given:
        return given
    if not lock:
        return ""
    if path:
        base = os.path.basename(path)
        return base.removesuffix(".lock") or base
    return _name_from_command(command, warnings)


def _name_from_command(command: str, warnings: list[str]) -> str:
    """The base name of the command as an object name.

    click.UsageError for interpreters, shells and wrappers: their name would join unrelated jobs in one lock.
    """
    base = os.path.basename(command)
    if _WRAPPERS.fullmatch(base):
        raise click.UsageError(
            f"give --name: unrelated jobs would share a lock named {base}, or an upgrade would change that name"
        )
    name = re.sub(r"[^a-z0-9.-]+", "-", base.lower())
    name = re.sub(r"[-.]*\.[-.]*", ".", name).strip("-.")[:_MAX_NAME].rstrip("-.")
    if not name:
        raise click.UsageError(f"give --name: {base or command!r} cannot be turned into the name of a lock")
    if name != base:
        warnings.append(f"the lock is named {name}, after the command {base}: give --name to choose another name")
    return name


def _log_suffix(identity: str) -> str:
    """What differs between the candidates of one Deployment: the end of the Pod's name, which begins the identity."""
    return identity.partition("_")[0].rpartition("-")[2][-_MAX_SUFFIX:]


def _default_identity() -> str:
    """The name of the Pod or of the host, and a UUID, as kube-controller-manager's."""
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4()}"
