"""``kleader run``: everything is checked here, so that what follows does not check again."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import sys
import uuid
from typing import Any, NoReturn

import click

from kleader import boot, platform
from kleader.cli import options, types
from kleader.election import timing
from kleader.election.duration import text
from kleader.link.plan import Plan
from kleader.locks.file import LockFileError, default_path, open_lock
from kleader.log import Log

FAILED, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127
LOSS_EXIT_CODE = 255  # glog.Fatalf's
_WRAPPERS = re.compile(
    r"(python|pypy|ruby|perl|php|lua|node|nodejs|deno|bun)[\d.]*"
    r"|java|dotnet|mono|erl|elixir|guile|racket|tclsh|wish|Rscript|julia|groovy|scala"
    r"|(a|ba|da|k|mk|z|c|tc|fi)?sh|busybox|env|sudo|su|doas|nice|ionice|chrt|taskset|nohup|setsid|stdbuf|time|timeout|unbuffer"
    r"|xargs|exec|command|chroot|unshare|nsenter|setpriv|gosu|su-exec|runuser|tini|dumb-init|flock|numactl|prlimit|script"
    r"|strace|ltrace|gdb|valgrind|npx|npm|yarn|pnpm|uv|uvx|poetry|pipenv|bundle|make|kleader|watch|s6-\w+|catatonit",
)


@click.command(
    context_settings={"allow_interspersed_args": False, "show_default": False},
    options_metavar="[OPTIONS] --",
)
@options.add(options.LOCK, options.API, options.TIMING)
@click.option(
    "--leader-elect",
    is_flag=False,
    flag_value="true",
    default="true",
    type=click.BOOL,
    metavar="[true|false]",
    help="false: run the command at once, with no election, as kube-controller-manager does.",
)
@click.option(
    "--wait",
    type=types.Duration(["live"]),
    help="Give up acquiring after so long, with status 124; live: on the first sign of life of a leader.",
)
@click.option("--no-wait", is_flag=True, help="Try once: --wait 0.")
@click.option(
    "--on-loss",
    type=click.Choice(["exit", "wait"]),
    default="exit",
    show_default=True,
    help="When leadership is lost: exit, or contend again.",
)
@click.option(
    "--loss-exit-code",
    type=click.IntRange(0, 255),
    default=LOSS_EXIT_CODE,
    show_default=True,
    help="The status for leadership lost.",
)
@click.option(
    "--restart",
    type=click.Choice(["no", "on-failure", "always"]),
    default="no",
    show_default=True,
    help="Start a command that ended again while still leading, with backoff.",
)
@click.option("--until-empty", is_flag=True, help="The command has ended only when all of its descendants have.")
@click.option("--no-release", is_flag=True, help="Leave the lock to run out instead of releasing it at the end.")
@click.option("--stop-signal", type=types.Signal(), help="How to ask the command to stop.  [default: the one received, or TERM]")
@click.option(
    "--stop-signal-to",
    type=click.Choice(["main", "group"]),
    default="main",
    show_default=True,
    help="Ask the main process alone, or its process group.",
)
@click.option(
    "--stop-timeout",
    type=types.Duration(),
    default="25s",
    show_default=True,
    help="How long a command that was asked to stop may take before SIGKILL.",
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="On stderr.")
@click.option("-v", "verbosity", is_flag=False, flag_value="1", default="0", type=types.Verbosity(), help="Log more; -v=N as klog.")
@click.option("-q", "quiet", is_flag=True, help="Log warnings and errors only.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND [ARG]...")
def run(command: tuple[str, ...], **given: Any) -> None:  # noqa: ANN401
    """Run COMMAND only while this candidate is the leader.

    It is started when the lock is acquired and killed, with all of its descendants, before anybody else can have it.
    Exits with the command's status; 124 not acquired in time, 125 kleader failed, 126 and 127 as a shell has them, 255
    leadership lost.

    Every option is also read from the environment as KLEADER_RUN_OPTION, such as KLEADER_RUN_LEASE_DURATION.
    """
    if not command:
        msg = "no command given: kleader run [OPTIONS] -- COMMAND [ARG]..."
        raise click.UsageError(msg)
    plan, remarks = _plan(list(command), given)
    _check_command(command[0])
    if plan.lock == "file":
        _check_file(plan)
    log = Log(plan.log_format, plan.verbosity, lock=plan.lock, namespace=plan.namespace, name=plan.name, identity=plan.identity)
    for remark in remarks:
        log.warning(remark)
    boot.become_supervisor(plan)


def _plan(command: list[str], given: dict[str, Any]) -> tuple[Plan, list[str]]:
    """The checked options, and what should be said of them. click.UsageError: exit status 2."""
    remarks: list[str] = []
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
    if given["loss_grace"] is None and times.grace < timing.MOST_GRACE:
        remarks.append(f"the grace on loss is shortened to {text(times.grace)}: no more fits into the lease duration")
    elect = given["leader_elect"]
    kind, path = given["lock"] if elect else ("", "")
    wait, live = _wait(given)
    if elect and kind != "file" and wait is not None and 0 < wait < times.lease_duration:
        remarks.append(
            f"--wait {text(wait)} is shorter than the lease duration {text(times.lease_duration)}:"
            " the lock of a leader that crashed can never be taken in that time",
        )
    name = types.object_name(given["name"]) if given["name"] else _default_name(command[0], remarks) if elect else ""
    namespace = types.namespace_name(given["namespace"])
    if kind == "file":
        namespace = namespace or os.environ.get("POD_NAMESPACE", "") or "default"
        if given["no_release"]:
            msg = "--no-release: a file lock lasts no longer than its processes; leave the option out"
            raise click.UsageError(msg)
        path = path or _default_path(namespace, name)
    request_timeout = times.request_timeout if given["request_timeout"] is None else given["request_timeout"]
    if not 0 < request_timeout <= times.request_timeout:
        msg = f"--request-timeout {text(request_timeout)} must be more than 0s, and at most half the renew deadline, {text(times.request_timeout)}"
        raise click.UsageError(msg)
    plan = Plan(
        command=command,
        path=[place for place in sys.path if place and os.path.isabs(place)],
        started=platform.clock(),
        lock=kind,
        namespace=namespace,
        name=name,
        file=path,
        identity=types.identity(given["identity"]) if given["identity"] is not None else _default_identity(),
        labels=dict(given["labels"]),
        api={
            "kubeconfig": given["kubeconfig"],
            "context": given["context"],
            "cluster": given["cluster"],
            "user": given["user"],
            "server": given["server"],
            "as": given["impersonate"],
        },
        lease_duration=times.lease_duration,
        renew_deadline=times.renew_deadline,
        retry_period=times.retry_period,
        grace=times.grace,
        kill=times.kill,
        skew=times.skew,
        request_timeout=request_timeout,
        wait=wait,
        live=live,
        on_loss=given["on_loss"],
        loss_exit_code=given["loss_exit_code"],
        restart=given["restart"],
        until_empty=given["until_empty"],
        release=not given["no_release"],
        stop_signal=_stop_signal(given["stop_signal"]),
        stop_group=given["stop_signal_to"] == "group",
        stop_timeout=given["stop_timeout"],
        log_format=given["log_format"],
        verbosity=0 if given["quiet"] else 1 + given["verbosity"],
    )
    return plan, remarks


def _wait(given: dict[str, Any]) -> tuple[float | None, bool]:
    """Seconds (None: for ever) and whether to give up on a sign of life."""
    wait = given["wait"]
    if given["no_wait"]:
        if wait is not None:
            msg = "--no-wait and --wait exclude each other: leave one out"
            raise click.UsageError(msg)
        return 0.0, False
    return (None, True) if wait == "live" else (wait, False)


def _default_name(command: str, remarks: list[str]) -> str:
    base = os.path.basename(command)
    if _WRAPPERS.fullmatch(base):
        msg = f"give --name: a lock named after {base} would be shared by unrelated jobs, or change with an upgrade"
        raise click.UsageError(msg)
    name = re.sub(r"[^a-z0-9.-]+", "-", base.lower())
    name = re.sub(r"[-.]*\.[-.]*", ".", name).strip("-.")[:253].rstrip("-.")
    if not name:
        msg = f"give --name: {base!r} cannot be made a lock's name"
        raise click.UsageError(msg)
    if name != base:
        remarks.append(f"the lock's name is {name}, made from the command {base}: give --name to choose another")
    return name


def _default_identity() -> str:
    """kube-controller-manager's: the host's name and a UUID."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def _default_path(namespace: str, name: str) -> str:
    try:
        return default_path(namespace, name)
    except LockFileError as error:
        _fail(error.strerror, FAILED)


def _stop_signal(number: int | None) -> int:
    if number in {signal.SIGKILL, signal.SIGSTOP}:
        msg = "--stop-signal: KILL and STOP are no way to ask; leave the option out, and see --stop-timeout"
        raise click.UsageError(msg)
    return number or 0


def _check_command(name: str) -> None:
    """Found out before the lock is touched, as far as looking can tell."""
    if shutil.which(name):
        return
    places = [name] if os.sep in name else [os.path.join(place, name) for place in os.get_exec_path()]
    if any(os.path.exists(place) for place in places):
        _fail(f"cannot execute {name}: not an executable file", NOT_EXECUTABLE)
    _fail(f"cannot execute {name}: no such command", NOT_FOUND)


def _check_file(plan: Plan) -> None:
    try:
        made = not os.path.exists(os.path.dirname(plan.file)) and plan.file == default_path(plan.namespace, plan.name)
        os.close(open_lock(plan.file, make_directory=made))
    except LockFileError as error:
        _fail(error.strerror, FAILED)


def _fail(sentence: str | None, status: int) -> NoReturn:
    click.echo(f"kleader: error: {sentence}", err=True)
    sys.exit(status)
