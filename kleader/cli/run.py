"""``kleader run``: everything is checked here, so that what follows does not check again."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import click

from kleader import boot, platform
from kleader.cli import beside, naming, options, types, watched
from kleader.cli.command import CommandRunner
from kleader.cli.option import Option
from kleader.cli.say import FAILED, fail
from kleader.election import timing
from kleader.election.duration import text
from kleader.election.record import LONGEST_DURATION
from kleader.link.plan import FOR_LIFE, Plan
from kleader.locks.file import LockFileError, default_path, open_lock

EPILOG = """
\b
Exit status:
  the command's own, 128+N if signal N ended it
  2       usage
  124     not acquired within --wait
  125     kleader itself failed
  126     the command cannot be executed
  127     the command was not found
  255     leadership lost (--loss-exit-code)

\b
kube-controller-manager's spellings are accepted too:
  --leader-elect-resource-lock      --leader-elect-lease-duration
  --leader-elect-resource-name      --leader-elect-renew-deadline
  --leader-elect-resource-namespace --leader-elect-retry-period

\b
Examples:
  kleader run --lock file -- ./nightly-report
  kleader run -n jobs --name beat -- celery -A proj beat
"""


@click.command(cls=CommandRunner, options_metavar="[OPTIONS] -- COMMAND [ARG]...", epilog=EPILOG)
@options.of_run()
def run(command: tuple[str, ...], **given: Any) -> None:  # noqa: ANN401
    """Run COMMAND only while this candidate is the leader.

    It is started when the lock is acquired and killed, with all of its descendants, before anybody else can have it.
    """
    plan, remarks = make_plan(list(command), given)
    for each in (plan.command, plan.standby, plan.on_new_leader, plan.health):
        if each:
            beside.check_command(each[0])
    if plan.lock == "file":
        _check_file(plan)
    if plan.state_file:
        watched.check_file(plan.state_file)
    log = boot.log_of(plan)
    if given["http"]:
        fd, where = watched.listen(given["http"])
        plan = plan._replace(http_fd=fd)
        log.info(f"answering HTTP at {where}")  # noqa: G004 - not of logging
    for remark in remarks:
        log.warning(remark)
    if plan.lock == FOR_LIFE:
        log.info("the lock does not expire: whoever gets it keeps it until its Pod is gone", pod=plan.pod)
    elif plan.lock not in {"", "file"} and given["loss_grace"] is None and plan.grace < timing.MOST_GRACE:
        shortened = f"the grace on loss is shortened to {text(plan.grace)}: no more fits into the lease duration"
        log.info(shortened)
    boot.become_supervisor(plan)


def make_plan(command: list[str], given: dict[str, Any], *, elsewhere: bool = False) -> tuple[Plan, list[str]]:
    """The checked options, and what should be said of them. click.UsageError: exit status 2.

    ``elsewhere``: it is not this process that shall run, so nothing is asked of its surroundings.
    """
    options.prevail(given, "wait", "no_wait")
    options.prevail(given, "v", "quiet")
    options.prevail(given, "release", "no_release")
    remarks: list[str] = []
    times = timings(given)
    kind, path = given["lock"] if given["leader_elect"] else ("", "")
    surroundings = os.environ.get("POD_NAMESPACE", "")
    namespace = types.namespace_name("--namespace", given["namespace"]) or types.namespace_name(
        "POD_NAMESPACE", surroundings
    )
    name = _name(given["name"], kind, path, command[0], remarks)
    if kind == "file":
        namespace = namespace or "default"
        if given["no_release"]:
            msg = "--no-release: a file lock lasts no longer than its processes; leave the option out"
            raise click.UsageError(msg)
        path = path or _default_path(namespace, name)
        if unused := _for_a_cluster(given):
            remarks.append(f"--lock file asks no cluster: leave out {', '.join(unused)}, or choose another lock")
    if given["force"] and kind and not kind.startswith("endpoints"):
        remarks.append(f"--force does nothing with --lock {kind}: only endpoints and endpointsleases refuse a lock")
    identity = naming.identity() if given["identity"] is None else types.identity(given["identity"])
    wait, live = _wait(given)
    if kind not in {"", "file", FOR_LIFE} and wait and wait <= times.lease_duration:
        remarks.append(
            f"--wait {text(wait)} is not longer than the lease duration {text(times.lease_duration)}:"
            " the lock of a leader that crashed can never be taken in that time",
        )
    plan = Plan(
        command=command,
        path=[place for place in sys.path if place and os.path.isabs(place)],
        started=platform.clock(),
        lock=kind,
        namespace=namespace,
        name=name,
        file=path,
        identity=identity,
        pod=_pod(namespace, surroundings) if kind == FOR_LIFE and not elsewhere else "",
        pod_uid=os.environ.get("POD_UID", "") if kind == FOR_LIFE else "",
        labels=dict(given["lock_label"]),
        force=given["force"],
        coordinated=_coordinated(given, kind, identity, remarks),
        binary_version=given["binary_version"] or "",
        emulation_version=given["emulation_version"] or given["binary_version"] or "",
        api=options.access(given),
        lease_duration=times.lease_duration,
        renew_deadline=times.renew_deadline,
        retry_period=times.retry_period,
        grace=times.grace,
        kill=times.kill,
        skew=times.skew,
        request_timeout=_request_timeout(given["request_timeout"], times),
        wait=wait,
        live=live,
        on_loss=given["on_loss"],
        loss_exit_code=given["loss_exit_code"],
        restart=given["restart"],
        until_empty=given["until_empty"],
        release=bool(given["release"]) if kind == FOR_LIFE else not given["no_release"],
        stop_signal=_stop_signal(given["stop_signal"]),
        stop_group=given["stop_signal_to"] == "group",
        stop_timeout=given["stop_timeout"],
        **beside.checked(given, kind, remarks, elsewhere=elsewhere),
        http=watched.written(*given["http"]) if given["http"] else "",
        http_fd=-1,
        state_file=os.path.abspath(given["state_file"]) if given["state_file"] else "",
        log_format=given["log_format"],
        verbosity=0 if given["quiet"] else 1 + (given["v"] or 0),
    )
    return plan, remarks


def _for_a_cluster(given: dict[str, Any]) -> list[str]:
    """Which options were given that have no meaning without one."""
    params = [each for each in click.get_current_context().command.params if isinstance(each, Option)]
    of_it = [each for each in params if each.section == options.CLUSTER or each.name == "lock_label"]
    return [max(each.opts, key=len) for each in of_it if given[each.name or ""]]


def _coordinated(given: dict[str, Any], kind: str, identity: str, remarks: list[str]) -> bool:
    """Whether the control plane is to name the leader."""
    binary, emulation = given["binary_version"], given["emulation_version"]
    if kind and not given["coordinated"] and (binary or emulation):
        remarks.append(f"--{'binary' if binary else 'emulation'}-version does nothing without --coordinated")
    if not kind or not given["coordinated"]:
        return False
    if kind != "lease":
        msg = f"--coordinated: the control plane names the leaders of Leases alone, not with --lock {kind}"
        raise click.UsageError(msg)
    if not binary:
        msg = "--coordinated needs --binary-version: the control plane chooses by versions"
        raise click.UsageError(msg)
    if emulation and types.precedence(emulation) > types.precedence(binary):
        msg = f"--emulation-version {emulation} is newer than --binary-version {binary}"
        raise click.UsageError(msg)
    types.candidate_name(identity)
    return True


def timings(given: dict[str, Any]) -> timing.Timing:
    """The checked timings; click.UsageError shows the sum that does not fit."""
    try:
        times = timing.choose(
            given["lease_duration"],
            given["renew_deadline"],
            given["retry_period"],
            grace=given["loss_grace"],
            kill=given["kill_budget"],
            skew=given["clock_skew"],
        )
    except timing.TimingError as error:
        raise click.UsageError(str(error)) from None
    if times.kill <= 0:
        msg = f"kill budget {text(times.kill)}: SIGKILL needs some time to end a process; 500ms is the default"
        raise click.UsageError(msg)
    if times.lease_duration > LONGEST_DURATION:
        msg = f"lease duration {text(times.lease_duration)} is longer than a year: {text(LONGEST_DURATION)} at most"
        raise click.UsageError(msg)
    return times


def _request_timeout(given: float | None, times: timing.Timing) -> float:
    most = times.request_timeout
    if given is None:
        return most
    if not 0 < given <= most:
        msg = f"--request-timeout {text(given)} must be more than 0s, and at most half the renew deadline, {text(most)}"
        raise click.UsageError(msg)
    return given


def _wait(given: dict[str, Any]) -> tuple[float | None, bool]:
    """Seconds (None: for ever) and whether to give up on a sign of life."""
    if given["no_wait"]:
        return 0.0, False
    return (None, True) if given["wait"] == "live" else (given["wait"], False)


def _name(given: str | None, kind: str, path: str, command: str, remarks: list[str]) -> str:
    if given:
        return types.object_name(given)
    if not kind:
        return ""
    if path:
        return naming.from_file(path)
    name, remark = naming.from_command(command)
    if remark:
        remarks.append(remark)
    return name


def _pod(namespace: str, surroundings: str) -> str:
    """Where we run. Nothing but the downward API is sure to know."""
    pod = os.environ.get("POD_NAME", "")
    if not pod:
        msg = f"--lock {FOR_LIFE} needs the name of the Pod in POD_NAME: set it by the downward API, to metadata.name"
        raise click.UsageError(msg)
    if surroundings and namespace != surroundings:
        msg = f"--lock {FOR_LIFE} is in its Pod's namespace, {surroundings} by POD_NAMESPACE: leave -n {namespace} out"
        raise click.UsageError(msg)
    return types.object_name(pod, "POD_NAME")


def _default_path(namespace: str, name: str) -> str:
    try:
        return default_path(namespace, name)
    except LockFileError as error:
        fail(error.strerror, FAILED)


def _stop_signal(number: int | None) -> int:
    if number in {signal.SIGKILL, signal.SIGSTOP}:
        msg = "--stop-signal: KILL and STOP are no way to ask; leave the option out, and see --stop-timeout"
        raise click.UsageError(msg)
    return number or 0


def _check_file(plan: Plan) -> None:
    try:
        made = not os.path.exists(os.path.dirname(plan.file)) and plan.file == default_path(plan.namespace, plan.name)
        os.close(open_lock(plan.file, make_directory=made))
    except LockFileError as error:
        fail(error.strerror, FAILED)
