"""What a lock and a candidate are called where nobody said so."""

from __future__ import annotations

import os
import re
import socket
import uuid

import click

_LONGEST = 253
# Interpreters, shells, and programs that run other programs.
_WRAPPERS = re.compile(
    r"python.*|(pypy|ruby|perl|php|lua|luajit|node|nodejs|deno|bun|java|tclsh|wish|guile)-?[\d.]*"
    r"|dotnet|mono|erl|iex|elixir|mix|racket|Rscript|julia|groovy|scala|clojure|[gmn]?awk"
    r"|(a|ba|c|da|k|mk|nu|o|pw|rba|t?c|x?on|y|z|fi)?sh(-?[\d.]+)?|busybox|toybox|env|sudo|su|doas|run0|pkexec|nice|ionice"
    r"|chrt|taskset|nohup|setsid|stdbuf|time|timeout|unbuffer|xargs|parallel|exec|command|chroot|unshare|nsenter|setpriv"
    r"|capsh|gosu|su-exec|runuser|tini|dumb-init|catatonit|flock|numactl|prlimit|choom|script|strace|ltrace|gdb|valgrind"
    r"|perf|npx|npm|yarn|pnpm|bunx|uv|uvx|pipx|pdm|poetry|pipenv|conda|mamba|bundle|rake|make|go|cargo|mvn|gradle|sbt"
    r"|docker|podman|nerdctl|kubectl|ssh|screen|tmux|systemd-run|firejail|bwrap|fakeroot|faketime|watch|entr|kleader|s6-\w+",
)


def from_command(command: str) -> tuple[str, str]:
    """The command's base name as an object name, and what to say of it if it had to change.

    click.UsageError for interpreters, shells and wrappers: such a name would lock unrelated jobs together.
    """
    base = os.path.basename(command)
    if _WRAPPERS.fullmatch(base):
        msg = f"give --name: a lock named after {base} would be shared by unrelated jobs, or change with an upgrade"
        raise click.UsageError(msg)
    name = re.sub(r"[^a-z0-9.-]+", "-", base.lower())
    name = re.sub(r"[-.]*\.[-.]*", ".", name).strip("-.")[:_LONGEST].rstrip("-.")
    if not name:
        msg = f"give --name: {base or command!r} cannot be made a lock's name"
        raise click.UsageError(msg)
    remark = f"the lock's name is {name}, made from the command {base}: give --name to choose another"
    return name, "" if name == base else remark


def from_file(path: str) -> str:
    """What a lock file is called, without its ending: the path decides which lock it is, the name does not."""
    base = os.path.basename(path)
    return base.removesuffix(".lock") or base


def identity() -> str:
    """kube-controller-manager's: the host's name and a UUID."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"
