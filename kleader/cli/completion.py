"""``kleader completion``, and the answers to a Tab: click's own, and what may follow ``--``.

Sources: click.shell_completion, and cobra's ``__complete`` protocol for kubectl's plugins.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from typing import TypeAlias

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    shell_complete,
    split_arg_string,
)

from kleader.cli import COMPLETION_VARIABLE
from kleader.cli.command_line import SEPARATOR, Command, CommandRunner

Item: TypeAlias = "CompletionItem[str]"

_FILES, _NO_FILES = 0, 4  # cobra's ShellCompDirective: files are offered where there is nothing else, or never
_STDERR = 2

EPILOG = """
\b
Examples:
  source <(kleader completion bash)       in ~/.bashrc
  source <(kleader completion zsh)        in ~/.zshrc, after compinit
  kleader completion fish | source        in ~/.config/fish/config.fish
"""


class _Completion(ShellComplete):
    """What may stand at the cursor. No name that a shell would expand is offered: expanding can run a program."""

    def get_completions(self, args: list[str], incomplete: str) -> list[Item]:
        """The candidates; for ``--option=value`` the values alone."""
        assert isinstance(self.cli, click.Group)  # noqa: S101 - kleader's
        command = self.cli.commands.get(args[0]) if args else self.cli
        if SEPARATOR in args:
            runs = isinstance(command, CommandRunner)
            return _command_after(args[args.index(SEPARATOR) + 1 :], incomplete) if runs else []
        found = super().get_completions(args, incomplete) if command else []
        return [item for item in found if item.type != "plain" or shlex.quote(item.value) == item.value]

    def complete(self) -> str:
        """The text that the shell's function reads. Each candidate replaces the whole word."""
        args, incomplete = self.get_completion_args()
        found = self.get_completions(args, incomplete)
        option = re.match("--[^=]+=", incomplete)
        for item in found if option else ():
            item.value = f"{option[0]}{item.value}" if item.type == "plain" else item.value  # type: ignore[index]
        return "\n".join(map(self.format_completion, found))


class _Bash(_Completion, BashComplete):
    """Bash splits words at ``=`` and ``:`` (COMP_WORDBREAKS), and replaces only what follows the last of them."""

    _head = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, and the one at it, as they were typed."""
        words = os.environ["COMP_WORDS"].split("\n")[1 : int(os.environ["COMP_CWORD"]) + 1]
        typed = re.sub("\n([=:]+)\n?", r"\1", "\n".join(words)).split("\n")
        *args, incomplete = ["".join(split_arg_string(word)) for word in typed]
        self._head = re.match("(.*[=:])?", incomplete)[0]  # type: ignore[index]
        return args, incomplete

    def format_completion(self, item: Item) -> str:
        """Only what follows the last break."""
        return f"{item.type},{item.value.removeprefix(self._head)}"


class _Zsh(_Completion, ZshComplete):
    pass


class _Fish(_Completion, FishComplete):
    pass


_SHELLS: dict[str, type[_Completion]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


@click.command(cls=Command, epilog=EPILOG)
@click.argument("shell", type=click.Choice(list(_SHELLS)), metavar="bash|zsh|fish")
def completion(shell: str) -> None:
    """Print the script that completes the command line in a shell."""
    root = click.get_current_context().find_root().command
    click.echo(_SHELLS[shell](root, {}, "kleader", COMPLETION_VARIABLE).source(), nl=False)


def answer_shell(root: click.Command) -> None:
    """Print the candidates for the shell's function, and exit. No error is printed: the user is typing."""
    _silence()
    try:
        for shell in _SHELLS.values():
            click.shell_completion.add_completion_class(shell)
        status = shell_complete(root, {}, "kleader", COMPLETION_VARIABLE, os.environ[COMPLETION_VARIABLE])
    except (SystemExit, Exception):  # noqa: BLE001 - nothing can be offered
        status = 1
    sys.exit(status)


def answer_kubectl(root: click.Command, words: list[str]) -> None:
    """Print the candidates for the last of the words, each with its help, then cobra's directive.

    kubectl leaves out those that do not begin like the word.
    """
    _silence()
    *args, incomplete = words or [""]
    try:
        found = _Completion(root, {}, "kubectl leader", "").get_completions(args, incomplete)
    except (SystemExit, Exception):  # noqa: BLE001 - nothing can be offered
        found = []
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(f":{_NO_FILES if all(item.type == 'plain' for item in found) else _FILES}")


def _silence() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STDERR)


def _command_after(words: list[str], incomplete: str) -> list[Item]:
    """Programs on PATH for the first word of the command, files for all others."""
    if words or not incomplete or os.sep in incomplete:
        return [CompletionItem(incomplete, type="file")]
    found = set()
    for directory in os.get_exec_path():
        if os.path.isdir(directory):
            found |= {name for name in os.listdir(directory) if name.startswith(incomplete)}
    return [CompletionItem(name) for name in sorted(found) if shlex.quote(name) == name]
