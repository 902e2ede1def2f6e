"""``kleader run``: checks everything, so that nothing is checked later, and becomes the supervisor."""

from __future__ import annotations

import os
import resource
import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from kleader import launch
from kleader.cli import monitoring
from kleader.cli.command_line import CommandRunner, Option
from kleader.cli.console import fail
from kleader.cli.plan_from_params import make_plan
from kleader.cli.run_options import run_options
from kleader.election import timing
from kleader.election.duration import text
from kleader.exits import FAILED, NOT_EXECUTABLE, NOT_FOUND
from kleader.ipc.plan import FOR_LIFE
from kleader.locks import file_lock, path_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kleader.ipc.plan import Plan

_MIN_OPEN_FILES = 64  # three times what a run with all of its options has open
_HOOKS = {"standby", "on_new_leader", "on_end", "health"}

EPILOG = """
\b
Exit status:
  the command's own, 128+N if signal N ended it
  2       usage
  124     not acquired within --wait (--busy-exit-code)
  125     kleader itself failed
  126     the command cannot be executed
  127     the command was not found
  255     leadership lost (--loss-exit-code)

\b
kube-controller-manager's spellings are accepted too:
  --leader-elect-resource-lock      --leader-elect-lease-duration
  --leader-elect-resource-name      --leader-elect-renew-deadline
  --leader-elect-resource-namespace --leader-elect-retry-period
  --leader-elect-lock
klog's flags, such as --logtostderr, are ignored.

\b
Examples:
  kleader run --lock file -- ./nightly-report
  kleader run -n jobs --name beat -- celery -A proj beat
"""


@click.command(cls=CommandRunner, options_metavar="[OPTIONS] -- COMMAND [ARG]...", epilog=EPILOG)
@run_options()
def run(command: tuple[str, ...], **params: Any) -> None:  # noqa: ANN401 - click's
    """Run COMMAND only while this candidate is the leader.

    COMMAND starts when the lock is acquired. It is killed, with all of its descendants, before another candidate can
    acquire the lock.
    """
    _check_limit()
    plan, warnings = make_plan(list(command), params)
    for words in (plan.command, plan.standby, plan.on_new_leader, plan.on_end, plan.health):
        if words:
            _check_command(words[0])
    for option, path in (("--state-file", plan.state_file), ("--metrics-file", plan.metrics_file)):
        warnings += monitoring.check_file(option, path) if path else []
    if plan.lock == "file":
        warnings += _check_lock_file(plan.file)
    log = launch.log_of(plan)
    if params["http"]:
        fd, address = monitoring.listen(params["http"])
        plan = plan._replace(http_fd=fd)
        log.info(f"answering HTTP at {address}", event="http_listening")  # noqa: G004 - not of logging
    for warning in warnings:
        log.warning(warning, event="option_warning")
    for line in _flag_lines(plan):
        log.debug(line, event="setting")
    if plan.lock == FOR_LIFE:
        sentence = "the lock does not expire: its holder keeps it until the holder's Pod is deleted"
        log.info(sentence, event="lock_without_expiry", pod=plan.pod.name)
    elif plan.lock not in {"", "file"} and params["loss_grace"] is None and plan.timing.grace < timing.MAX_GRACE:
        sentence = f"the grace on loss is shortened to {text(plan.timing.grace)}: no more fits into the lease duration"
        log.info(sentence, event="loss_grace_shortened")
    launch.become_supervisor(plan)


def _check_limit() -> None:
    """With too few file descriptors the command could start, but its processes could not be listed and killed."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit != resource.RLIM_INFINITY and limit < _MIN_OPEN_FILES:
        fail(
            f"{limit} open files are too few for kleader and its command: raise ulimit -n to {_MIN_OPEN_FILES}", FAILED
        )


def _check_lock_file(path: str) -> list[str]:
    """Warnings about the lock file; LockFileError if it cannot serve."""
    os.close(file_lock.open_lock(path))
    path_fds = path_lock.open_path_locks(path)
    for fd in path_fds:
        os.close(fd)
    return [] if path_fds or sys.platform != "linux" else [path_lock.UNGUARDED]


def _check_command(name: str) -> None:
    """Exit if the program cannot be executed, as far as that can be told before the lock is touched."""
    if shutil.which(name):
        return
    has_path = os.sep in name
    places = [name] if has_path else [os.path.join(place, name) for place in os.get_exec_path()]
    if not any(map(os.path.exists, places)):
        fail(f"cannot execute {name}: {'no such file' if has_path else 'not found in PATH'}", NOT_FOUND)
    why = "it is a directory" if os.path.isdir(name) else "permission denied: chmod +x it, or name an interpreter"
    fail(f"cannot execute {name}: {why}", NOT_EXECUTABLE)


def _flag_lines(plan: Plan) -> Iterator[str]:
    """A line for each option and its value, as kube-controller-manager logs its flags; no credential is among them."""
    context = click.get_current_context()
    resolved = {
        **{name: getattr(plan, name) for name in ("namespace", "name", "identity", "emulation_version")},
        "server": plan.api["server"],  # without a password
        "loss_grace": text(plan.timing.grace),
        "kill_budget": text(plan.timing.kill),
        "clock_skew": text(plan.timing.skew),
        "request_timeout": text(plan.request_timeout),
    }
    for param in context.command.params:
        if isinstance(param, Option):
            name = str(param.name)
            value = resolved.get(name, "" if context.params[name] in (None, ()) else param.text(context))
            if name in _HOOKS and (words := getattr(plan, name)):
                value = words[0] + (" ..." if words[1:] else "")  # an argument may be a password
            yield f'FLAG: {param.long}="{_flag_value(value)}"'


def _flag_value(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
