"""The parts of a command line: options in sections, commands, and commands that run another one after ``--``."""

from __future__ import annotations

import inspect
import shlex
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.shell_completion import CompletionItem

ALIASES = "--leader-elect-"  # kube-controller-manager's spellings
SEPARATOR = "--"
_BRIEF = f"{__name__}.brief"
_GIVEN = {click.core.ParameterSource.COMMANDLINE, click.core.ParameterSource.ENVIRONMENT}


class Option(click.Option):
    """An option in a ``section`` of the help; a ``brief`` one is shown by -h too, with the first sentence of its help.

    The help lists kube-controller-manager's spellings once, at the end, and has one rule for all variables.
    """

    def __init__(self, names: list[str], section: str, *, brief: bool = True, **attributes: Any) -> None:  # noqa: ANN401 - click's
        attributes.setdefault("show_default", bool(attributes.get("default")))
        super().__init__(names, **attributes)
        self.section = section
        self.brief = brief
        self.of_run = False

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """click's, without those spellings."""
        names, self.opts = self.opts, [name for name in self.opts if not name.startswith(ALIASES)]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = names

    def brief_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The names, and the first sentence of the help with a default that is a value."""
        if self.hidden or not self.brief:
            return None
        record = self.get_help_record(ctx)
        assert record  # noqa: S101 - it is not hidden
        sentence = str(self.help).partition(". ")[0].removesuffix(".") + "."
        default = f" [default: {self.default}]" if self.show_default is True else ""
        return record[0], f"{sentence}{' [required]' if self.required else default}"

    def variable(self, ctx: click.Context) -> str:
        """The environment variable that gives the option its value."""
        return str(self.envvar or f"{ctx.auto_envvar_prefix}_{str(self.name).upper()}")

    def consume_value(self, ctx: click.Context, opts: Any) -> Any:  # noqa: ANN401 - click's
        """click's, but ``-v=4`` is ``-v 4``, as pflag reads it."""
        value, source = super().consume_value(ctx, opts)
        short = any(not name.startswith("--") for name in self.opts)
        if short and source is click.core.ParameterSource.COMMANDLINE and isinstance(value, str):
            value = value.removeprefix("=")
        return value, source

    def process_value(self, ctx: click.Context, value: Any) -> Any:  # noqa: ANN401 - click's
        """click's, which keeps the text."""
        ctx.meta[f"{__name__}.{self.name}"] = value
        return super().process_value(ctx, value)

    @property
    def long(self) -> str:
        """The first long name."""
        return next(name for name in self.opts if name.startswith("--"))

    def text(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's
        """The text that was given, or the default."""
        return ctx.meta[f"{__name__}.{self.name}"]

    def arguments(self, ctx: click.Context) -> list[str]:
        """The arguments that give the option the value that it has by the command line or the environment."""
        if ctx.get_parameter_source(str(self.name)) not in _GIVEN:
            return []
        if self.is_flag:
            return [self.long] if ctx.params[str(self.name)] else []
        text = self.text(ctx)
        return [f"{self.long}={value}" for value in (text if self.multiple else [text])]


def _has_dash(option: Option) -> bool:
    """Whether the name of the option differs in more than its case from that of its variable."""
    return "_" in str(option.name)


def _paragraph(formatter: click.HelpFormatter, text: str) -> None:
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(inspect.cleandoc(text))


def section(title: str, **usual: Any) -> Callable[..., Callable[..., Any]]:  # noqa: ANN401 - click's
    """A function of names ("-n --name name"), help and attributes that makes decorators as click.option does."""

    def option(names: str, help: str, **attributes: Any) -> Callable[..., Any]:  # noqa: A002, ANN401 - click's
        return click.option(*names.split(), cls=Option, section=title, help=help, **usual | attributes)

    return option


class _Help(click.Option):
    """``-h`` for the options that matter most, ``--help`` for all of them."""

    def __init__(self) -> None:
        super().__init__(
            ["-h", "--help", "_help"], is_flag=True, expose_value=False, is_eager=True, callback=self._show,
            flag_value="--help", type=str, help="-h shows the options that matter most, --help all of them.",
        )  # fmt: skip

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:  # noqa: ANN401, ARG002 - click's
        """click's, but the value is the spelling."""
        for name in self.opts:
            parser.add_option(obj=self, opts=[name], dest=self.name, action="store_const", const=name)

    @staticmethod
    def _show(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
        if value and not ctx.resilient_parsing:
            ctx.meta[_BRIEF] = value == "-h"
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()


class HelpOption(click.Command):
    """A command with both names of the help option, also in a context that has no group above it."""

    _own_help: click.Option | None = None  # one object: click compares parameters by identity

    def get_help_option(self, ctx: click.Context) -> click.Option:  # noqa: ARG002
        """The option, whose two names show the brief and the whole help."""
        self._own_help = self._own_help or _Help()
        return self._own_help


class Command(HelpOption):
    """A command with its options in sections."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The whole help for ``--help``; for ``-h`` the brief options, if the command has others too."""
        own = [param for param in self.get_params(ctx) if isinstance(param, Option)]
        if not ctx.meta.get(_BRIEF) or all(param.brief for param in own):
            super().format_help(ctx, formatter)
            return
        self.format_usage(ctx, formatter)
        _paragraph(formatter, str(self.help).partition("\n\n")[0])
        with formatter.section("Options"):
            formatter.write_dl([record for param in own if (record := param.brief_record(ctx))])
        _paragraph(formatter, f"All options, their variables and the exit statuses: {ctx.command_path} --help")
        _, title, examples = str(self.epilog).partition("Example")
        _paragraph(formatter, f"\b\n{title}{examples}")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """click's, after the one rule for the variables of all options."""
        own = [param for param in self.get_params(ctx) if isinstance(param, Option)]
        examples = {param.of_run: f"{param.variable(ctx)} is {param.long}" for param in sorted(own, key=_has_dash)}
        if own:
            rule = (
                f"Each option can be given as an environment variable: {', '.join(examples.values())}, and so on. A"
                " flag takes true or 1. The command line wins. An empty variable counts as unset."
            )
            _paragraph(formatter, rule)
        super().format_epilog(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """The options, without kube-controller-manager's spellings unless one is being typed."""
        found = super().shell_complete(ctx, incomplete)
        return [item for item in found if not item.value.startswith(ALIASES) or incomplete.startswith(ALIASES)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, section by section."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if not isinstance(param, click.Argument) and (record := param.get_help_record(ctx)):
                sections.setdefault(param.section if isinstance(param, Option) else "Help", []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class CommandRunner(Command):
    """A command that takes another one after the first ``--``, unchanged; only options may stand before it.

    A mistyped option cannot become a part of that command, and none of its options can be taken for kleader's.
    """

    command_required = True
    allow_interspersed_args = False
    allow_extra_args = True  # refused below

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """The options, and the separator after them."""
        from click.shell_completion import CompletionItem

        separator = [CompletionItem(SEPARATOR)] if SEPARATOR.startswith(incomplete) else []
        return [*separator, *super().shell_complete(ctx, incomplete)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options into ``ctx.params``, and put ``command`` there; click.UsageError without a command."""
        end = args.index(SEPARATOR) if SEPARATOR in args else len(args)
        stray = super().parse_args(ctx, args[:end])
        command = args[end + 1 :]
        if ctx.resilient_parsing:  # for completion
            return []
        usage = f"{ctx.command_path} [OPTIONS] {SEPARATOR}"
        msg = ""
        if stray and end < len(args):
            msg = f"{stray[0]!r} before {SEPARATOR} belongs to no option"
        elif stray:
            msg = f"write {SEPARATOR} before the command: {usage} {shlex.join(stray)}"
        elif not command and self.command_required:
            msg = f"no command given: {usage} COMMAND [ARG]..."
        elif command and not command[0]:
            msg = f"the command after {SEPARATOR} is empty"
        if msg:
            raise click.UsageError(msg, ctx)
        ctx.params["command"] = tuple(command)
        return []
