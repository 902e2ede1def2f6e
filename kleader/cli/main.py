"""The entry point ``kleader``."""

from __future__ import annotations

import os
import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as in a background job
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C shows no traceback, not even of an import

from collections import UserDict
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from kleader import __version__
from kleader.cli.command_line import COMPLETION_VARIABLE, Command, HelpOption
from kleader.cli.console import fail
from kleader.exits import FAILED

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SUPPORTED = ("linux", "darwin")
_STDERR = 2

# The first sentence of the help of each, for the list of commands.
COMMANDS = {
    "check": "Check whether a run with these options could lead here, and print how to fix what is wrong",
    "completion": "Print the script that completes kleader's command line in a shell",
    "help": "Show the help of kleader, or of COMMAND",
    "is-leader": "Tell by the exit status whether the kleader of this machine or Pod leads",
    "manifest": "Print what runs COMMAND with a hot standby in a cluster, for kubectl to apply",
    "resign": "Ask the leader of the lock NAME, a kleader, to stop its command and to release the lock",
    "run": "Run COMMAND only while this candidate is the leader",
    "status": "Show the lock NAME, or all locks of a namespace, whichever program wrote them",
    "transfer": "Ask the leader of the lock NAME, a kleader, to stop its command and to hand the lock to IDENTITY",
    "version": "Show the version",
    "wait": "Wait until the lock NAME has a leader, has none, or has another one, and print its state",
}

_NEVER_SUGGESTED = {"resign", "transfer"}  # a typing error must not suggest what ends a leadership


class Commands(UserDict[str, Any]):
    """The commands, each imported when it is asked for: it is the variable of its name in the module of its name."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COMMANDS))

    def __getitem__(self, name: str) -> click.Command:
        found: click.Command | None = super().__getitem__(name)
        if found is None:
            variable = name.replace("-", "_")
            found = self.data[name] = getattr(import_module(f"kleader.cli.{variable}"), variable)
        return found


class Group(HelpOption, click.Group):
    """The group, which lists its commands without importing them."""

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(commands=Commands(), **attributes)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """click's, but without a suggestion if the most similar command ends a leadership."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            if (error.possibilities or [""])[0] not in _NEVER_SUGGESTED:
                raise
            raise click.exceptions.NoSuchCommand(error.command_name, ctx=ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """The commands and the options, without importing any command."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands, each with its sentence."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])


@click.group(
    cls=Group,
    context_settings={"auto_envvar_prefix": "KLEADER", "max_content_width": 100},
)
@click.version_option(__version__, prog_name="kleader", allow_from_autoenv=False)  # images set KLEADER_VERSION
def cli() -> None:
    """Run a command only while leader.

    kleader acquires a Kubernetes lock as kube-controller-manager, kube-scheduler, client-go and controller-runtime do,
    or a lock on this machine. It starts the command, and kills it with all of its descendants before another candidate
    can lead.
    """


@cli.command(cls=Command)
@click.argument("argument", metavar="[COMMAND]", type=click.Choice(sorted(COMMANDS)), required=False)
def help(argument: str | None) -> None:  # noqa: A001 - what the command is called
    """Show the help of kleader, or of COMMAND."""
    root = click.get_current_context().find_root()
    if argument is None:
        click.echo(root.get_help())
        return
    group = root.command
    assert isinstance(group, click.Group)  # noqa: S101 - there is but one root
    with click.Context(group.commands[argument], parent=root, info_name=argument) as context:
        click.echo(context.get_help())


@cli.command(cls=Command)
def version() -> None:
    """Show the version."""
    click.echo(f"kleader, version {__version__}")


def main(program: str = "kleader") -> None:
    """Run the command line. Every error is one line. In PID 1, TERM and INT stay pending until they are handled."""
    _open_standard_streams()
    if os.getpid() == 1:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    if sys.platform not in SUPPORTED:
        fail(f"{sys.platform} is not supported: Linux is, and macOS with limits", FAILED)
    if COMPLETION_VARIABLE in os.environ:
        from kleader.cli.completion import answer_shell

        answer_shell(cli)
    try:
        cli(prog_name=program)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python writes what is left of its buffer at the end
        fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", FAILED)
    except Exception as error:  # noqa: BLE001 - one line, not a traceback
        fail(f"internal error: {type(error).__name__}: {error}; please report it", FAILED)


def _open_standard_streams() -> None:
    """Open /dev/null in place of a closed one: another file would take its number, and be written to as a log."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass  # exec closes it, so that the command finds it closed
    os.close(fd)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)  # Python has None where one was closed
    sys.stderr = sys.stderr or os.fdopen(_STDERR, "w", closefd=False)
