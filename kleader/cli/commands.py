"""The command line: the group of all commands, each imported when it is asked for."""

from __future__ import annotations

import sys
from collections import UserDict
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from kleader import __version__
from kleader.cli.command_line import Command, HelpOption, Option
from kleader.cli.console import fail
from kleader.exits import NOT_DONE

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_USAGE = 2  # click's exit status

# The first sentence of the help of each, for the list of commands.
GROUPS = {
    "Run": {
        "run": "Run COMMAND only while this candidate is the leader",
        "demo": "Show three candidates for one lock, and the leader killed",
    },
    "See who leads": {
        "status": "Show who leads: one lock, or all locks of a namespace",
        "wait": "Wait until a lock has a leader, has none, or has another one",
        "is-leader": "Exit with 0 if the kleader of this Pod or host leads",
    },
    "Change who leads": {
        "resign": "Ask the leader to stop its command and to release the lock",
        "transfer": "Ask the leader to hand the lock to a candidate that waits for it",
    },
    "Set up": {
        "check": "Check whether a run could lead here, and say what to fix",
        "manifest": "Print the YAML that runs COMMAND with a hot standby",
        "copy-to": "Copy this kleader to DIR, from where it runs in any image",
        "completion": "Print the script that completes the command line in a shell",
    },
}
_HELP = {"help": "Show the help of kleader, or of COMMAND", "version": "Show the version"}  # the help's last line
COMMANDS = {name: sentence for group in (*GROUPS.values(), _HELP) for name, sentence in group.items()}

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

    def main(self, *args: Any, standalone_mode: bool = True, **attributes: Any) -> Any:  # noqa: ANN401 - click's
        """click's, with errors of the command line in the form of all others, below the usage."""
        run: Any = super().main
        if not standalone_mode:
            return run(*args, standalone_mode=False, **attributes)
        try:
            status = run(*args, standalone_mode=False, **attributes)
        except click.Abort:
            fail("interrupted", NOT_DONE)
        except click.UsageError as error:
            if error.ctx:
                click.echo(f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} -h' for help.", err=True)
            fail(_message(error), error.exit_code)
        return sys.exit(status if isinstance(status, int) else 0)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """click's; without arguments the help is printed as an error."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(_USAGE)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """click's, but never suggests what ends a leadership, and suggests nothing if that is the most similar."""
        if args[0] in COMMANDS or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches

        similar = get_close_matches(args[0], COMMANDS)
        if not _NEVER_SUGGESTED.isdisjoint(similar[:1]):
            similar = []
        offered = [repr(name) for name in similar if name not in _NEVER_SUGGESTED]
        hint = f"; did you mean {' or '.join(offered)}?" if offered else ""
        raise click.UsageError(f"no such command {args[0]!r}{hint}", ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """The commands and the options, without importing any command."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Nothing: the sentence of ``run``, which comes first, says what kleader does."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The commands in their groups, each with its sentence, and the options: a screen of 24 lines."""
        width = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), sentence) for name, sentence in group.items()])
        formatter.write_paragraph()
        formatter.write_text("Help: kleader COMMAND -h (brief) or --help (all); man kleader; kleader version")


def _message(error: click.UsageError) -> str:
    """The message in small letters; for an option's value it begins with the option's long name or its variable."""
    param = error.param if isinstance(error, click.BadParameter) else None
    if not isinstance(param, Option) or isinstance(error, click.MissingParameter) or not error.ctx:
        said = error.format_message().replace(". Did you", "; did you")
        said = said if said.endswith("...") else said.removesuffix(".")
        return said[:1].lower() + said[1:] if said[1:2].islower() else said
    is_variable = error.ctx.get_parameter_source(str(param.name)) is click.core.ParameterSource.ENVIRONMENT
    said = error.message.replace("a valid integer range", "a whole number").removesuffix(".")
    return f"{param.variable(error.ctx) if is_variable else param.long} {said}"


@click.group(
    cls=Group,
    context_settings={"auto_envvar_prefix": "KLEADER", "max_content_width": 100},
)
@click.version_option(__version__, prog_name="kleader", allow_from_autoenv=False)  # images set KLEADER_VERSION
def cli() -> None:
    """Run a command only while this candidate is the leader."""


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
