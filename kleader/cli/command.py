"""What a command line looks like in help, and one of the form ``[OPTIONS] -- COMMAND [ARG]...``."""

from __future__ import annotations

import shlex

import click

from kleader.cli.option import Option

SEPARATOR = "--"


class Command(click.Command):
    """Its help shows the options section by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, section by section."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in [each for each in self.get_params(ctx) if not isinstance(each, click.Argument)]:
            title = param.section if isinstance(param, Option) else "Help"
            if record := param.get_help_record(ctx):
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class CommandRunner(Command):
    """Everything after the first ``--`` is the command, exactly as it was given; before it stand options alone.

    So a mistyped option can never become a part of what is run, nor the command's options be taken for ours.
    """

    command_required = True
    allow_interspersed_args = False
    allow_extra_args = True  # told about below

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The options into ``ctx.params``, and ``command`` beside them. click.UsageError where there is none."""
        end = args.index(SEPARATOR) if SEPARATOR in args else len(args)
        stray = super().parse_args(ctx, args[:end])
        command = args[end + 1 :]
        usage = f"{ctx.command_path} [OPTIONS] {SEPARATOR}"
        if stray and end < len(args):
            msg = f"{stray[0]!r} stands before {SEPARATOR} and belongs to no option"
            raise click.UsageError(msg, ctx)
        if stray:
            msg = f"write {SEPARATOR} before the command: {usage} {shlex.join(stray)}"
            raise click.UsageError(msg, ctx)
        if not command and self.command_required:
            msg = f"no command given: {usage} COMMAND [ARG]..."
            raise click.UsageError(msg, ctx)
        if command and not command[0]:
            msg = f"the command after {SEPARATOR} is empty"
            raise click.UsageError(msg, ctx)
        ctx.params["command"] = tuple(command)
        return []
