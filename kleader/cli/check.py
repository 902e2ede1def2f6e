"""``kleader check``: what would keep a run from leading, found out before there is trouble."""

from __future__ import annotations

import errno
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from kleader import platform
from kleader.cli import options, watched
from kleader.cli.command import CommandRunner
from kleader.cli.finding import FAIL, OK, WARN, Finding, Tell, printable
from kleader.cli.run import make_plan, timings
from kleader.election.duration import text
from kleader.locks import file

if TYPE_CHECKING:
    from kleader.link.plan import Plan

_FAILED = 1
_DEFAULTS: dict[str, Any] = {
    "lease_duration": 15.0,
    "renew_deadline": 10.0,
    "retry_period": 2.0,
    **dict.fromkeys(("loss_grace", "kill_budget", "clock_skew", "request_timeout")),
}

EPILOG = """
\b
Exit status:
  0       nothing failed: all is ok, or worth a warning
  1       something failed
  2       usage
  125     kleader itself failed

\b
Examples:
  kleader check -n jobs --name beat
  kubectl exec -n jobs POD -- kleader check --name beat
"""


class Checker(CommandRunner):
    """The command may be left out: it gives the lock its name, and is not looked at."""

    command_required = False


@click.command(cls=Checker, options_metavar="[OPTIONS] [-- COMMAND [ARG]...]", epilog=EPILOG)
@options.printing("-o", "--output", "output", type=click.Choice(["json", "yaml"]), help="All of it, for a program.")
@options.of_run()
def check(command: tuple[str, ...], output: str | None, **given: Any) -> None:  # noqa: ANN401 - click's
    """Tell whether a run with these options could lead here, and what would mend it.

    A line each: ok, warn or fail. Nothing is changed, neither the lock nor the cluster.
    """
    if not command and not given["name"] and not given["lock"][1]:
        msg = "give the lock's --name, or the command that names it: kleader check [OPTIONS] -- COMMAND"
        raise click.UsageError(msg)
    findings: list[Finding] = []

    def tell(finding: Finding) -> None:
        findings.append(finding)
        if not output:
            click.echo(finding.line)

    _look(list(command) or ["command"], given, tell)
    failed = any(finding.level == FAIL for finding in findings)
    if output:
        shown = [{key: printable(value) for key, value in each._asdict().items()} for each in findings]
        click.echo(_document({"kind": "CheckReport", "ok": not failed, "findings": shown}, output), nl=False)
    sys.exit(_FAILED if failed else 0)


def _document(report: dict[str, Any], form: str) -> str:
    if form == "json":
        return json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    from kleader.cli.output import as_yaml

    return as_yaml(report)


def _look(command: list[str], given: dict[str, Any], tell: Tell) -> None:
    try:
        times = timings(given)
    except click.UsageError as error:
        first = Finding(FAIL, "timings", error.message)
        given |= _DEFAULTS  # so that the rest is looked at
    else:
        parts = (times.renew_deadline, times.grace, times.kill, times.skew)
        shown = f"{' + '.join(map(text, parts))} = {text(sum(parts))}"
        first = Finding(OK, "timings", f"{shown} fits into the lease duration {text(times.lease_duration)}")
    if given["lock"] == ("file", "") and given["leader_elect"]:
        try:
            file.default_path("", "")
        except file.LockFileError as error:
            tell(first)
            tell(Finding(FAIL, "directory", str(error.strerror)))
            return
    plan, remarks = make_plan(command, given)
    tell(first)
    for each in remarks:
        tell(Finding(WARN, "options", each))
    _look_at_reports(plan, given["http"], tell)
    if plan.lock == "file":
        _look_at_file(plan, tell)
    elif plan.lock:
        from kleader.cli import cluster, reach

        reach.run(cluster.look(plan, tell))
    else:
        tell(Finding(WARN, "lock", "there is no election: each run leads", "leave --leader-elect=false out"))


def _look_at_reports(plan: Plan, address: tuple[str, int] | None, tell: Tell) -> None:
    if address:
        try:
            watched.bound(address).close()
        except OSError as error:
            level = WARN if error.errno == errno.EADDRINUSE else FAIL  # perhaps a run that is here already
            tell(Finding(level, "http", f"{plan.http}: {watched.reason(error)}", "choose another address or port"))
        else:
            tell(Finding(OK, "http", f"{plan.http} is free"))
    if plan.state_file:
        why, mend = watched.trouble(plan.state_file)
        tell(Finding(FAIL if why else OK, "state file", f"{plan.state_file}: {why or 'can be written'}", mend))


def _look_at_file(plan: Plan, tell: Tell) -> None:
    """Without making the file, or touching its lock."""
    path, mend = plan.file, "give --lock file:PATH in a directory that you can write to"
    place = os.path.dirname(path)
    if path == file.default_path(plan.namespace, plan.name) and not os.path.exists(place):
        place = os.path.dirname(place)  # the run makes it
    if not os.path.isdir(place):
        tell(Finding(FAIL, "directory", f"{place} does not exist", mend))
        return
    if not os.access(place, os.W_OK | os.X_OK):
        tell(Finding(FAIL, "directory", f"{place} is not writable", mend))
    else:
        tell(Finding(OK, "directory", f"{place} is writable"))
    kind = platform.filesystem(os.stat(place).st_dev)
    if not kind:
        tell(Finding(WARN, "file system", f"what {place} is on cannot be told", "make sure that it is a local one"))
    elif file.remote(kind):
        mend = "use a local file system, or --lock lease"
        tell(Finding(FAIL, "file system", f"{place} is on {kind}, where locks are not to be trusted", mend))
    else:
        tell(Finding(OK, "file system", f"{place} is on {kind}, a local file system"))
    if not os.path.lexists(path):
        tell(Finding(OK, "lock", f"{path} does not exist yet: the first candidate makes it"))
        return
    try:
        fd = file.open_lock(path, make_directory=False)
    except file.LockFileError as error:
        tell(Finding(FAIL, "lock", str(error.strerror)))
        return
    found = file.read(fd) or {}
    os.close(fd)
    last = found.get("identity")
    tell(Finding(OK, "lock", f"{path} is a lock file{f', which {last} held last' if last else ''}"))
