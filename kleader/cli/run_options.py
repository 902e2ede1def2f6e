"""The options of ``run``, in the order in which its help shows them; ``check`` and ``manifest`` take them too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kleader.cli import types
from kleader.cli.command_line import section
from kleader.cli.ignored import PREFIX, klog_options
from kleader.cli.options import CONNECTION, FILE, NAMESPACE, api, groups, lock, lock_name, lock_type, one_of, words
from kleader.exits import LEADERSHIP_LOST, NOT_ACQUIRED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kleader.cli.options import Decorator

_election = section("Election")
_timing = section("Timings", type=types.duration)
_command = section("Command")
_hook = section("Beside the command")
_monitoring = section("Monitoring")
_log = section("Log")
_EXIT_STATUS = {"type": click.IntRange(0, 255), "metavar": "STATUS"}

LOCK = (
    lock_type(),
    lock_name("The name that all candidates for this lock share.", show_default="the command's base name"),
    NAMESPACE,
    lock(
        "--identity",
        "The identity of this candidate; it must be unique.",
        type=types.identity,
        metavar="ID",
        show_default="POD_NAME or the host's name, _, a UUID",
    ),
    lock(
        "--lock-label",
        "A label for the lock's objects; may be repeated.",
        type=types.label,
        metavar="KEY=VALUE",
        multiple=True,
    ),
    lock(
        "--priority",
        "The standby with the highest priority leads next, when a leader ends or transfers the lock.",
        type=click.IntRange(-1_000_000, 1_000_000),
        metavar="N",
        default=0,
    ),
    lock(
        "--no-register",
        "Do not make this candidate known while it waits: status and transfer do not see it.",
        is_flag=True,
    ),
    lock(
        "--force",
        "With endpoints, endpointsleases: take the lock although a Service of its name loses its EndpointSlices.",
        is_flag=True,
    ),
    lock(
        "--coordinated",
        "With lease: the control plane names the leader, the candidate with the oldest emulation version (KEP-4355);"
        " plain election in a cluster without that API.",
        is_flag=True,
    ),
    lock(
        "--binary-version", "With --coordinated, required: this program's version, such as 1.36.0.", type=types.version
    ),
    lock(
        "--emulation-version",
        "With --coordinated: the version that this program emulates.",
        type=types.version,
        show_default="the binary version",
    ),
    lock(
        "--coordinated-strategy",
        "With --coordinated: how the leader is chosen. DOMAIN/NAME: by a controller that knows this strategy, instead"
        " of the control plane.",
        type=types.strategy,
        default=types.STRATEGY,
        metavar="NAME",
    ),
)

_API = (
    *CONNECTION,
    api(
        "--request-timeout",
        "The longest that one request may take; no more than the default.",
        type=types.duration,
        show_default="half the renew deadline",
    ),
)

_TIMINGS = (
    _timing(
        "--lease-duration --leader-elect-lease-duration lease_duration",
        "How long a leader that does not renew keeps the lock, in whole seconds.",
        default="15s",
    ),
    _timing(
        "--renew-deadline --leader-elect-renew-deadline renew_deadline",
        "A leader that has not renewed for this long stops its command.",
        default="10s",
    ),
    _timing(
        "--retry-period --leader-elect-retry-period retry_period",
        "The time between two renewals; at least 1s.",
        default="2s",
    ),
    _timing(
        "--loss-grace",
        "The time between the stop signal and SIGKILL when leadership is lost.",
        show_default="what the other timings leave, at most 3s",
    ),
    _timing(
        "--kill-budget",
        "The time allowed for SIGKILL to end the command and all of its descendants.",
        show_default="500ms",
    ),
    _timing(
        "--clock-skew",
        "The allowance for clocks that run at different rates.",
        show_default="a tenth of the lease duration",
    ),
)

_ELECTION = (
    _election(
        "--leader-elect",
        "false: run the command at once, with no election, as kube-controller-manager does.",
        is_flag=False,
        flag_value="true",
        default="true",
        show_default=False,
        type=types.boolean,
        metavar="[true|false]",
        **words(("true", "false")),
    ),
    _election(
        "--wait",
        "Give up acquiring after this time, with status 124. live: give up when the leader is observed alive, or, with"
        " status 125, when the API server does not answer for a lease duration.",
        type=types.duration_or_live,
        metavar="DURATION|live",
        show_default="for ever",
        **words((types.LIVE,)),
    ),
    _election("--no-wait", "Try once to acquire the lock, as --wait 0.", is_flag=True),
    _election(
        "--once-per",
        "Do not start the command if a successful run of any candidate began less than this time ago.",
        type=types.duration,
        metavar="DURATION",
    ),
    _election(
        "--once", "Do not start the command if a run with this key has succeeded.", type=types.run_key, metavar="KEY"
    ),
    _election(
        "--once-after",
        "Which runs count for --once and --once-per: those that succeeded, or any.",
        **one_of("success", "any"),
    ),
    _election(
        "--once-exit-code", "The exit status if --once or --once-per prevents the start.", default=0, **_EXIT_STATUS
    ),
    _election(
        "--busy-exit-code",
        "The exit status if another candidate holds the lock throughout --wait.",
        default=NOT_ACQUIRED,
        **_EXIT_STATUS,
    ),
    _election(
        "--on-loss",
        "When leadership is lost: exit, or wait to lead again.",
        **one_of("exit", "wait"),
    ),
    _election("--loss-exit-code", "The exit status if leadership is lost.", default=LEADERSHIP_LOST, **_EXIT_STATUS),
    _election("--no-release", "Let the lock expire at the end, instead of releasing it.", is_flag=True),
    _election(
        "--release",
        "Release the lock at the end. This is the default, except for a leader-for-life lock, which the Pod keeps.",
        is_flag=True,
    ),
)

_COMMAND = (
    _command(
        "--restart",
        "Restart the command when it ends: no, on-failure, always. It is restarted while this candidate leads, with"
        " backoff.",
        metavar="WHEN",
        **one_of("no", "on-failure", "always"),
    ),
    _command("--until-empty", "Count the command as ended only when all of its descendants have ended.", is_flag=True),
    _command(
        "--stop-signal",
        "The signal that asks the command to stop.",
        type=types.signal_number,
        metavar="SIGNAL",
        show_default="the one received, else TERM",
        **words(types.SIGNALS),
    ),
    _command(
        "--stop-signal-to",
        "Send that signal to the main process alone, or to its process group.",
        **one_of("main", "group"),
    ),
    _command(
        "--stop-timeout",
        "How long the command may take to stop. Then it is killed.",
        type=types.duration,
        default="25s",
    ),
)

_HOOKS = (
    _hook(
        "--standby",
        "A command to run while this candidate does not lead, such as a replica; it is dead before COMMAND starts.",
        type=types.command,
    ),
    _hook(
        "--pod-label",
        "Label this Pod by its role, so that a Service can select the leader. For a while two Pods may have the label.",
        type=types.role_label,
        metavar="KEY=LEADER[,STANDBY]",
    ),
    _hook(
        "--on-new-leader",
        "A command to run when the leader is first observed and when it changes, with KLEADER_LEADER set; no shell.",
        type=types.command,
    ),
    _hook(
        "--on-end",
        "A command to run when the command has ended and the lock is released, with KLEADER_STATUS, KLEADER_REASON,"
        " KLEADER_STARTED and KLEADER_ENDED set; no shell.",
        type=types.command,
    ),
    _hook(
        "--health",
        "A command: status 0 is healthy. An unhealthy candidate does not compete; an unhealthy leader steps down.",
        type=types.command,
    ),
    _hook(
        "--health-period",
        "The time between two health checks, and the longest that one may take.",
        type=types.duration,
        default="10s",
    ),
    _hook(
        "--health-failures",
        "How many failures in a row count as unhealthy.",
        type=click.IntRange(1, 1000),
        metavar="N",
        default=3,
    ),
)

_MONITORING = (
    _monitoring(
        "--http",
        "Serve health, metrics and the leader over HTTP. /healthz, /readyz, /leader and /metrics; :PORT for all"
        " addresses.",
        type=types.listen_address,
        metavar="ADDR:PORT",
    ),
    _monitoring(
        "--state-file",
        "Keep role, token and deadlines there as JSON, replaced at each renewal and change.",
        **FILE,
    ),
    _monitoring(
        "--metrics-file",
        "Write the result of the run there at its end, for node_exporter's textfile collector; the name ends in .prom.",
        **FILE,
    ),
    _monitoring(
        "--notify",
        "Which program notifies systemd, if NOTIFY_SOCKET is set. kleader: it sends READY=1 when it waits or leads."
        " command: the command sends it, and gets the variable.",
        **one_of("kleader", "command"),
    ),
)

_LOG = (
    _log("--log-format", "The format of the log on stderr.", **one_of("text", "json")),
    _log(
        "-v --v v",
        "Log more; N is a level, as in -v=4.",
        is_flag=False,
        flag_value="1",
        default="0",
        show_default=False,
        type=types.verbosity,
        metavar="N",
    ),
    _log("-q --quiet quiet", "Log only warnings and errors.", is_flag=True),
)


BRIEF = ("lock", "name", "namespace", "wait", "no_wait", "on_loss", "restart", "stop_timeout", "http", "quiet")


def run_options(without: Collection[str] = ()) -> Decorator:
    """A decorator that adds the options of ``run``, but for those named ``without``, and klog's flags.

    Each is read from the variable that ``run`` reads: what is set for ``run`` holds for check and manifest too. ``-h``
    shows those of ``BRIEF``.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        own = list(getattr(function, "__click_params__", ()))
        every = (LOCK, _API, _TIMINGS, _ELECTION, _COMMAND, _HOOKS, _MONITORING, _LOG)
        params = groups(*every)(function).__click_params__[len(own) :]  # type: ignore[attr-defined]
        kept = [param for param in params if param.name not in without]
        for param in kept:
            param.of_run = True
            param.brief = param.name in BRIEF
            param.envvar = f"{PREFIX}{param.name.upper()}"
        function.__click_params__ = [*own, *kept, *klog_options()]  # type: ignore[attr-defined]
        return function

    return decorate
