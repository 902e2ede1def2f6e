"""The completion scripts, made from the commands' declarations."""

from __future__ import annotations

import re
import signal
from typing import Any, NamedTuple

import click

from kleader.cli import types
from kleader.cli.command import SEPARATOR, CommandRunner
from kleader.cli.option import ALIASES
from kleader.cli.scripts import BASH, FISH, ZSH

_ASKED = {each.removesuffix("s"): each for each in ("contexts", "clusters", "users", "namespaces")}
_ASKED |= {"name": "leases", "argument": "leases"}
_WORDS = {"for": ("leader", "free", "change"), "what": ("bash", "zsh", "fish")}
_FILES = {"kubeconfig", "state_file"}


class Value(NamedTuple):
    """What an option or an argument takes; nothing of it set: something that nobody can guess."""

    words: tuple[str, ...] = ()
    asked: str = ""  # what `kleader completion` prints
    files: bool = False


class Known(NamedTuple):
    """An option."""

    names: list[str]
    value: Value | None  # None: a flag
    needed: bool  # False: the value may be left out, and is given with = alone
    repeated: bool
    help: str


class Subcommand(NamedTuple):
    """A command, and whether another one follows after ``--``."""

    name: str
    help: str
    options: list[Known]
    argument: Value | None
    runs: bool


def script(shell: str, root: click.Command) -> str:
    """The script for one of ``kleader.cli.completion.SHELLS``."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](subcommands(root))


def subcommands(root: click.Command) -> list[Subcommand]:
    """What the commands of the program take, by name."""
    assert isinstance(root, click.Group)  # noqa: S101 - there is but one root
    return [_subcommand(name, command) for name, command in sorted(root.commands.items())]


def _subcommand(name: str, command: click.Command) -> Subcommand:
    context = click.Context(command, info_name=name, help_option_names=["-h", "--help"])
    params = command.get_params(context)
    known = [_known(param) for param in params if isinstance(param, click.Option)]
    arguments = [_value(param) for param in params if isinstance(param, click.Argument)]
    first = command.get_short_help_str(100).rstrip(".")
    return Subcommand(name, first, known, arguments[0] if arguments else None, isinstance(command, CommandRunner))


def _known(param: click.Option) -> Known:
    names = [name for name in param.opts if not name.startswith(ALIASES)]
    flag = param.is_flag or param.count
    optional = not flag and param.to_info_dict()["flag_value"] is not None
    first = (param.help or "").split(". ")[0].rstrip(".")
    if re.match(r"[a-z-]+: ", first):  # what its values mean, one after the other
        first = str(param.metavar).strip("[]").lower()
    return Known(names, None if flag else _value(param), not optional, param.multiple, first)


def _value(param: click.Parameter) -> Value:
    name = str(param.name)
    words = _WORDS.get(name) or _words(param.type)
    return Value(words, "" if words else _ASKED.get(name, ""), name in _FILES)


def _words(kind: click.ParamType[Any]) -> tuple[str, ...]:
    if isinstance(kind, click.Choice):
        return tuple(map(str, kind.choices))
    if isinstance(kind, types.LockType):
        return tuple(dict.fromkeys(kind.aliases.values()))
    if isinstance(kind, types.Switch):
        return ("true", "false")
    if isinstance(kind, types.Signal):
        return tuple(each.name.removeprefix("SIG") for each in signal.Signals)
    return kind.words if isinstance(kind, types.Duration) else ()


# --- bash


def _bash(commands: list[Subcommand]) -> str:
    lines, values = [], []
    for each in commands:
        named = [name for option in each.options for name in option.names]
        words = [SEPARATOR] if each.runs else list(each.argument.words if each.argument else ())
        asked = each.argument.asked if each.argument else ""
        lines.append(f'    {each.name}) options="{" ".join(named)}" words="{" ".join(words)}" asked="{asked}" ;;')
        for option in each.options:
            if option.value is not None and option.needed:
                values += [f"{each.name}:{name}" for name in option.names]
    kinds: dict[Value, list[str]] = {}
    for each in commands:
        for option in each.options:
            if option.value is not None and any(option.value):
                kinds.setdefault(option.value, []).extend(f"{each.name}:{name}" for name in option.names)
    cases = [
        f'    {"|".join(names)}) words="{" ".join(value.words)}" asked="{value.asked}" files="{value.files or ""}" ;;'
        for value, names in kinds.items()
    ]
    return _filled(
        BASH,
        COMMANDS=" ".join(each.name for each in commands),
        RUNNERS="|".join(each.name for each in commands if each.runs),
        OPTIONS="\n".join(lines),
        TAKING="|".join(values),
        VALUES="\n".join(cases),
    )


# --- zsh


def _zsh(commands: list[Subcommand]) -> str:
    described = [f"    {_quoted(f'{each.name}:{each.help}')}" for each in commands]
    cases = []
    for each in commands:
        specs = [_zsh_option(option, name) for option in each.options for name in option.names]
        if each.argument:
            specs.append(f"1:name:{_zsh_action(each.argument)}")
        if each.runs:
            specs.append("*: :(--)")
        written = " \\\n        ".join(map(_quoted, specs))
        cases.append(f"    {each.name})\n      _arguments -s \\\n        {written}\n      ;;")
    runners = "|".join(each.name for each in commands if each.runs)
    return _filled(ZSH, COMMANDS="\n".join(described), RUNNERS=runners, OPTIONS="\n".join(cases))


def _zsh_option(option: Known, name: str) -> str:
    others = [other for other in option.names if other != name]
    excluded = "*" if option.repeated else f"({' '.join(others)})" if others else ""
    told = re.sub(r"([\[\]:\\])", r"\\\1", option.help)
    if option.value is None:
        return f"{excluded}{name}[{told}]"
    joint = "=" if name.startswith("--") else "+"
    joint = joint if option.needed else f"{joint}-".replace("+-", "-")
    return f"{excluded}{name}{joint}[{told}]:value:{_zsh_action(option.value)}"


def _zsh_action(value: Value) -> str:
    if value.words:
        return f"({' '.join(value.words)})"
    if value.asked:
        return f" _kleader_names {value.asked}"  # with a space first _arguments adds no words of its own
    return "_files" if value.files else " "


# --- fish


def _fish(commands: list[Subcommand]) -> str:
    lines = []
    for each in commands:
        lines.append(f"complete -c kleader -n __kleader_first -a {each.name} -d {_fish_quoted(each.help)}")
        inside = f"-n '__kleader_in {each.name}'"
        for option in each.options:
            short = [f"-s {name[1:]}" for name in option.names if not name.startswith("--")]
            long = [f"-l {name[2:]}" for name in option.names if name.startswith("--")]
            value = _fish_value(option.value) if option.value is not None and option.needed else ""
            words = " ".join(filter(None, [*short, *long, value]))
            lines.append(f"complete -c kleader {inside} {words} -d {_fish_quoted(option.help)}")
        if each.argument:
            lines.append(f"complete -c kleader {inside} {_fish_value(each.argument).removeprefix('-x ')}")
        if each.runs:
            lines.append(f"complete -c kleader {inside} -a -- -d 'the command follows'")
    runners = " ".join(each.name for each in commands if each.runs)
    return _filled(FISH, OPTIONS="\n".join(lines), RUNNERS=runners)


def _fish_value(value: Value) -> str:
    if value.words:
        return f"-x -a {_fish_quoted(' '.join(value.words))}"
    if value.asked:
        return f"-x -a '(__kleader_names {value.asked})'"
    return "-r -F" if value.files else "-x"


# --- words


def _filled(text: str, **parts: str) -> str:
    for name, part in parts.items():
        text = text.replace(f"@{name}@", part)
    return text


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
