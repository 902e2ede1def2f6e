"""Completion in the real shells: at a terminal, by pressing Tab."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import untried
from tests.process.conftest import KLEADER
from tests.process.test_terminal import PROMPT, Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.processes import Processes

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SHOW = "\x07"  # Ctrl-G: has the shell print the line as it stands
ARGV = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
SETUP = {
    "bash": r"""bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; source {script}
        bind -x '"\C-g": printf "<%s>" "$READLINE_LINE"'; PS1='{prompt}'""",
    "zsh": r"""unsetopt beep prompt_sp; unset zle_bracketed_paste; autoload -Uz compinit && compinit -u -D
        source {script}; show() {{ print -rn -- "<$BUFFER>" }}; zle -N show; bindkey '^G' show; PS1='{prompt}'""",
    "fish": r"""source {script}; function show; printf '<%s>' (commandline); end; bind \cg show
        function fish_prompt; printf '{prompt}'; end""",
}
CONFIG = {
    "contexts": [{"name": "arn:aws:eks/one"}, {"name": "$(touch pwned)"}, {"name": "two words"}],
    "clusters": [{"name": "first"}],
    "users": [{"name": "somebody"}],
}
UNIQUE = [
    ("unique-comm", "unique-command"),
    ("kleader ru", "kleader run "),
    ("kleader run --lease-d", "kleader run --lease-duration"),
    ("kleader run --lock leader", "kleader run --lock leader-for-life "),
    ("kleader run --lock=leader", "kleader run --lock=leader-for-life "),
    ("kleader run --restart on", "kleader run --restart on-failure "),
    ("kleader check --stop-signal WIN", "kleader check --stop-signal WINCH "),
    ("kleader manifest -q --log-format js", "kleader manifest -q --log-format json "),
    ("kleader wait --for fr", "kleader wait --for free "),
    ("kleader status -o ya", "kleader status -o yaml "),
    ("kleader completion fi", "kleader completion fish "),
    ("kleader run --no-wait --name x -- unique-comm", "kleader run --no-wait --name x -- unique-command "),
]
NAMES = [
    ("kleader run --context arn", r"kleader run --context arn\\?:aws\\?:eks/one "),
    ("kleader run --context=arn:a", r"kleader run --context=arn\\?:aws\\?:eks/one "),
    ("kleader status --cluster f", "kleader status --cluster first "),
    ("kleader check --user s", "kleader check --user somebody "),
]


MISSING = [name for name in ARGV if not shutil.which(name) and "CI" not in os.environ]
untried.extend(f"the completion in {name}: apt-get install {name}" for name in MISSING)


@pytest.fixture(params=[name for name in ARGV if name not in MISSING])
def shell(request: pytest.FixtureRequest) -> str:
    """Each installed shell; in CI all must be installed."""
    name: str = request.param
    assert shutil.which(name), f"no {name}: apt-get install {name}"
    return name


class Prompt:
    """A shell at its prompt, with kleader and another command on its path."""

    def __init__(self, shell: str, place: Path, processes: Processes) -> None:
        self.place = place
        bin_ = place / "bin"
        bin_.mkdir()
        program = f'#!/bin/sh\ncd {ROOT} && exec {shlex.join(KLEADER)} "$@"\n'
        for name, content in (("kleader", program), ("unique-command", "#!/bin/sh\n")):
            (bin_ / name).write_text(content)
            (bin_ / name).chmod(0o755)
        config = place / "config"
        config.write_text(json.dumps(CONFIG))
        script = place / "script"
        script.write_text(printed(shell))
        env = {"PATH": f"{bin_}:{os.environ['PATH']}", "KUBECONFIG": str(config), "HOME": str(place), "TERM": "xterm"}
        self.terminal = Terminal(processes, ARGV[shell], cwd=str(place), **env)
        if shell != "fish":
            self.terminal.wait(re.escape(PROMPT))
        half = PROMPT[:2] + "''" + PROMPT[2:]  # so that what is typed is not taken for it
        setup = SETUP[shell].format(script=script, prompt=half)
        self.terminal.type("".join(f"{line.strip()}; " for line in setup.splitlines()) + "\n")
        self.terminal.wait(re.escape(PROMPT))

    def completed(self, typed: str) -> str:
        """The line after a Tab; then the line is cleared."""
        self.terminal.type(f"{typed}\t{SHOW}")
        line = self.terminal.wait("<([^>]*)>")[1]
        self.terminal.type("\x15")  # Ctrl-U
        return line


@pytest.fixture
def prompt(shell: str, tmp_path: Path, processes: Processes) -> Iterator[Prompt]:
    at = Prompt(shell, tmp_path, processes)
    yield at
    at.terminal.close()


def printed(shell: str) -> str:
    argv = [*KLEADER, "completion", shell]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def test_a_unique_candidate_is_completed(prompt: Prompt) -> None:
    for typed, line in UNIQUE:
        assert prompt.completed(typed).rstrip("= ") == line.rstrip()


def test_names_of_the_kubeconfig_are_completed_and_not_executed(prompt: Prompt) -> None:
    for typed, line in NAMES:
        assert re.fullmatch(line.rstrip(), prompt.completed(typed).rstrip()), typed
    prompt.completed("kleader run --context '$")
    prompt.completed("kleader run --context ")
    assert not (prompt.place / "pwned").exists()


def test_before_the_separator_no_command_is_offered_and_after_it_no_option_of_kleader(prompt: Prompt) -> None:
    assert prompt.completed("kleader run unique-comm").rstrip() == "kleader run unique-comm"
    assert prompt.completed("kleader run -- unique-command --restart on-fail").rstrip().endswith("--restart on-fail")
    assert prompt.completed("kleader status -- unique-comm").rstrip().endswith("-- unique-comm")


def test_a_completion_that_fails_prints_nothing(shell: str) -> None:
    """An error would appear in the middle of the typed line."""
    argv = KLEADER
    env = {"_KLEADER_COMPLETE": f"{shell}_complete", "COMP_WORDS": "kleader run --context ", "COMP_CWORD": "no number"}
    done = subprocess.run(argv, env=os.environ | env, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("", "")
