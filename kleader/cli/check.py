"""``kleader check``: finds what would keep a run from leading, before it runs."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from kleader import system
from kleader.cli import monitoring, options
from kleader.cli.check_result import FAIL, OK, WARN, CheckReport
from kleader.cli.command_line import CommandRunner
from kleader.cli.console import one_line
from kleader.cli.plan_from_params import make_plan, timings
from kleader.cli.run_options import run_options
from kleader.election.duration import text
from kleader.exits import NOT_DONE
from kleader.locks import file_lock

if TYPE_CHECKING:
    from kleader.ipc.plan import Plan

EPILOG = """
\b
Exit status:
  0       nothing failed; there may be warnings
  1       a check failed
  2       usage
  125     kleader itself failed

\b
Examples:
  kleader check -n jobs --name beat
  kubectl exec -n jobs POD -- kleader check --name beat
"""


class Checker(CommandRunner):
    """The command may be left out: it only gives the lock its name."""

    command_required = False


@click.command(cls=Checker, options_metavar="[OPTIONS] [-- COMMAND [ARG]...]", epilog=EPILOG)
@options.output("-o --output output", "Print the report for a program.", type=click.Choice(["json", "yaml"]))
@run_options()
def check(command: tuple[str, ...], output: str | None, **params: Any) -> None:  # noqa: ANN401 - click's
    """Check whether a run could lead here, and say what to fix.

    Give the options of that run. Each check prints a line: ok, warn or fail. Neither the lock nor the cluster is
    changed.
    """
    if not command and not params["name"] and not params["lock"][1]:
        raise click.UsageError(
            "which lock? give --name, or the command after which it is named: kleader check [OPTIONS] -- COMMAND"
        )
    report = CheckReport(lambda result: None if output else click.echo(result.line))
    _run_checks(list(command) or ["command"], params, report)
    failed = any(result.level == FAIL for result in report.results)
    if output:
        from kleader.cli import formatters

        findings = [{key: one_line(value) for key, value in result._asdict().items()} for result in report.results]
        document = {"kind": "CheckReport", "ok": not failed, "findings": findings}
        formatters.print_document(document, output)
    sys.exit(NOT_DONE if failed else 0)


def _run_checks(command: list[str], params: dict[str, Any], report: CheckReport) -> None:
    try:
        times = timings(params)
    except click.UsageError as error:
        report.fail("timings", error.message)
        return
    try:
        plan, warnings = make_plan(command, params)
    except file_lock.LockFileError as error:
        report.fail("directory", str(error.strerror))
        return
    parts = (times.renew_deadline, times.grace, times.kill, times.skew)
    total = f"{' + '.join(map(text, parts))} = {text(sum(parts))}"
    report.ok("timings", f"{total} fits into the lease duration {text(times.lease_duration)}")
    for warning in warnings:
        report.warn("options", warning)
    _check_monitoring(plan, params["http"], report)
    if plan.lock == "file":
        _check_file_system(plan.file, report, is_default=not params["lock"][1])
    elif plan.lock:
        from kleader.cli import api_access, check_cluster

        api_access.run(check_cluster.check(plan, report))
    else:
        report.warn("lock", "there is no election: each run leads", "leave --leader-elect=false out")


def _check_monitoring(plan: Plan, address: tuple[str, int] | None, report: CheckReport) -> None:
    if address:
        try:
            monitoring.bind(address).close()
        except OSError as error:
            level = WARN if error.errno == errno.EADDRINUSE else FAIL  # perhaps by the run that is checked
            report.add(level, "http", f"{plan.http}: {monitoring.reason(error)}", "choose another address or port")
        else:
            report.ok("http", f"{plan.http} is free")
    for what, path in (("state file", plan.state_file), ("metrics file", plan.metrics_file)):
        if path:
            problem, passes = monitoring.file_problem(path)
            level = WARN if passes else FAIL if problem else OK
            report.add(level, what, f"{path}: {problem or 'can be written'}")


def _check_file_system(path: str, report: CheckReport, *, is_default: bool) -> None:
    """Check where the lock file is. The file is not created, and its lock is not touched."""
    directory = os.path.dirname(path)
    while is_default and not os.path.lexists(directory):
        directory = os.path.dirname(directory)  # run creates it
    if not _check_directory(directory, path, report, is_default=is_default):
        return
    kind = system.filesystem(os.stat(directory).st_dev)
    if not kind:
        report.warn("file system", f"the file system of {directory} is unknown", "make sure that it is a local one")
    elif file_lock.remote(kind):
        fix = "give --lock file:PATH on a local file system, or --lock lease"
        report.fail("file system", f"{directory} is on {kind}, whose locks are unreliable", fix)
    else:
        report.ok("file system", f"{directory} is on {kind}, a local file system")
    _check_lock_file(path, report)


def _check_directory(directory: str, path: str, report: CheckReport, *, is_default: bool) -> bool:
    """Check the directory; False if there is nothing more to check."""
    fix = "give --lock file:PATH in a directory that you can write to"
    if not os.path.isdir(directory):
        report.fail("directory", f"{directory} does not exist", fix)
        return False
    if is_default and directory == os.path.dirname(path) and (problem := file_lock.unsafe(directory)):
        report.fail("directory", problem)
        return False
    if not os.path.lexists(path):
        if os.access(directory, os.W_OK | os.X_OK):
            report.ok("directory", f"{directory} is writable")
        else:
            report.fail("directory", f"{directory} is not writable", fix)
    if is_default:
        user = f"only candidates of user {os.geteuid()} exclude each other; every other user has another lock file"
        report.ok("users", user)
    return True


def _check_lock_file(path: str, report: CheckReport) -> None:
    if not os.path.lexists(path):
        report.ok("lock", f"{path} does not exist yet: the first candidate creates it")
        return
    try:
        fd = file_lock.open_lock(path)
    except file_lock.LockFileError as error:
        report.fail("lock", str(error.strerror))
        return
    last, mode = file_lock.last_holder(fd), os.fstat(fd).st_mode
    os.close(fd)
    report.ok("lock", f"{path} is a lock file{f', last held by {last}' if last else ''}")
    if mode & 0o077:
        report.warn("readers", f"every user who can open {path} can hold the lock for ever", f"chmod 600 {path}")
