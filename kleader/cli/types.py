"""Kinds of option values, each refused in one sentence that says what would do."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
from typing import TYPE_CHECKING, Any

import click

from kleader.election import duration
from kleader.link.plan import FOR_LIFE

if TYPE_CHECKING:
    from collections.abc import Iterable

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_NUMBER, _PART = r"(?:0|[1-9][0-9]*)", r"[0-9A-Za-z-]+"
_IDENTIFIER = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?(?:\+{_PART}(?:\.{_PART})*)?",
    re.ASCII,
)
_CANDIDATE = re.compile(r"[-._a-zA-Z0-9]+")
_LONGEST_LABEL, _LONGEST_NAME, _LONGEST_IDENTITY = 63, 253, 1024
_LAST_PORT = 65535


class Duration(click.ParamType[Any]):
    """A Go duration, in seconds; ``words`` are accepted as they are."""

    name = "duration"

    def __init__(self, words: Iterable[str] = ()) -> None:
        self.words = tuple(words)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """Seconds, or one of the words."""
        if not isinstance(value, str) or value in self.words:
            return value
        if len(value) > _LONGEST_LABEL:
            return self.fail(f"{_short(value)} is not a duration", param, ctx)
        try:
            return duration.parse(value)
        except ValueError as error:
            words = "".join(f", or {word}" for word in self.words)
            return self.fail(f"{error}{words}", param, ctx)


class Switch(click.ParamType[Any]):
    """What Go's strconv.ParseBool takes, in any case. Nothing is neither: an election is not turned off by accident."""

    name = "boolean"
    values = {**dict.fromkeys(("1", "t", "true"), True), **dict.fromkeys(("0", "f", "false"), False)}  # noqa: RUF012

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """True or False."""
        if isinstance(value, bool):
            return value
        found = self.values.get(value.lower())
        return self.fail(f"{_short(value)} is neither true nor false", param, ctx) if found is None else found


class LockType(click.ParamType[Any]):
    """A type of lock, ``file`` with or without a path; as a pair of type and path."""

    name = "lock"
    kinds = ("lease", "configmap", "endpoints", "configmapsleases", "endpointsleases")
    aliases = {alias: kind for kind in kinds for alias in (kind, f"{kind.removesuffix('s')}s", kind.removesuffix("s"))}  # noqa: RUF012 - read only
    aliases |= {FOR_LIFE: FOR_LIFE, "file": "file"}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """(type, path)."""
        if isinstance(value, tuple):
            return value
        kind, colon, path = value.partition(":")
        if kind not in self.aliases or (colon and (kind != "file" or not path)):
            kinds = ", ".join((*self.kinds, FOR_LIFE))
            self.fail(f"{_short(value)} is not a lock: choose {kinds}, file or file:PATH", param, ctx)
        try:
            return self.aliases[kind], os.path.abspath(path) if path else ""
        except OSError:
            return self.fail(f"{path!r} is relative to a directory that is gone: write it from /", param, ctx)


class Signal(click.ParamType[Any]):
    """A signal by name, with or without SIG, or by number."""

    name = "signal"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """Its number."""
        if isinstance(value, int):
            return value
        name = value.upper()
        for candidate in (name, f"SIG{name}"):
            if candidate in signal.Signals.__members__:
                return int(signal.Signals[candidate])
        numbers = {str(int(number)): int(number) for number in signal.valid_signals()}
        if name in numbers:
            return numbers[name]
        return self.fail(f"{_short(value)} is not a signal: write it as TERM, SIGTERM or 15", param, ctx)


class Verbosity(click.ParamType[Any]):
    """``-v``, ``-vv`` and klog's ``-v=4``."""

    name = "n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """How much beyond the usual."""
        if isinstance(value, int):
            return value
        text = value.removeprefix("=")
        if re.fullmatch("[0-9]{1,4}", text):
            return int(text)
        if text and not text.strip("v"):
            return len(text) + 1
        return self.fail(f"{_short(text)} is not a level: write -v, -vv or -v=4", param, ctx)


class CommandLine(click.ParamType[Any]):
    """A command in one word, parted as a POSIX shell parts it: quotes and backslashes, and nothing else of a shell."""

    name = "command"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """Its words."""
        if isinstance(value, list):
            return value
        try:
            words = shlex.split(value)
        except ValueError as error:
            return self.fail(f"{_short(value)} is not a command: {error}", param, ctx)
        if not words or not words[0]:
            self.fail(f"{_short(value)} is not a command: it has no words", param, ctx)
        return words


class Label(click.ParamType[Any]):
    """``KEY=VALUE`` as Kubernetes takes it; as a pair."""

    name = "key=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """(key, value)."""
        if isinstance(value, tuple):
            return value
        key, equals, content = value.partition("=")
        if not (equals and _is_key(key) and _is_value(content)):
            self.fail(
                f"{_short(value)} is not a label: write KEY=VALUE, such as app.kubernetes.io/name=worker", param, ctx
            )
        return key, content


class RoleLabel(click.ParamType[Any]):
    """``KEY=LEADER[,STANDBY]``; as three words, the last "" where it is left out."""

    name = "key=leader[,standby]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """[key, leader, standby]."""
        if isinstance(value, list):
            return value
        key, _, values = value.partition("=")
        leader, _, standby = values.partition(",")
        if not (leader and leader != standby and _is_key(key) and _is_value(leader) and _is_value(standby)):
            self.fail(f"{_short(value)} is not a label: write KEY=LEADER or KEY=LEADER,STANDBY", param, ctx)
        return [key, leader, standby]


def _is_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    valid = len(name) <= _LONGEST_LABEL and _LABEL_PART.fullmatch(name)
    return bool(valid and (not slash or (_DNS_NAME.fullmatch(prefix) and len(prefix) <= _LONGEST_NAME)))


def _is_value(value: str) -> bool:
    return len(value) <= _LONGEST_LABEL and bool(not value or _LABEL_PART.fullmatch(value))


class Address(click.ParamType[Any]):
    """``ADDR:PORT``, where to listen; without ADDR everywhere. No name: what it stands for is not ours to find out."""

    name = "addr:port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """(address, port); the address is "" for all, an IPv6 one without brackets."""
        if isinstance(value, tuple):
            return value
        host, colon, port = value.rpartition(":")
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        family = socket.AF_INET6 if bare != host else socket.AF_INET
        bare = "127.0.0.1" if bare == "localhost" else bare
        good = bool(colon and re.fullmatch("[0-9]{1,5}", port) and int(port) <= _LAST_PORT)
        try:
            good = good and (not host or bool(socket.inet_pton(family, bare)))
        except (OSError, ValueError):
            good = False
        if not good:
            self.fail(f"{_short(value)} is no address: write 127.0.0.1:8080, [::1]:8080, or :8080 for all", param, ctx)
        return bare, int(port)


class Version(click.ParamType[Any]):
    """A whole semantic version (https://semver.org), as the API server takes it."""

    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """The text as it is."""
        if len(value) > _LONGEST_LABEL or not _VERSION.fullmatch(value) or precedence(value) == precedence("0.0.0"):
            self.fail(f"{_short(value)} is not a whole semantic version: write it as 1.36.0", param, ctx)
        return value


def precedence(version: str) -> tuple[Any, ...]:
    """What semantic versions are ordered by: a pre-release comes before its release, numbers before words."""
    match = _VERSION.fullmatch(version)
    assert match  # noqa: S101 - checked
    *numbers, before = match.groups()
    parts = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in before.split(".")] if before else []
    return (*map(int, numbers), not before, parts)


def candidate_name(value: str) -> str:
    """An identity that a LeaseCandidate may have for a name; click.UsageError otherwise."""
    if len(value) > _LONGEST_NAME or not _CANDIDATE.fullmatch(value) or value == "." or value.startswith(".."):
        rule = f"letters, digits, -, . and _ only, {_LONGEST_NAME} at most, and neither . alone nor .. first"
        msg = f"--identity {_short(value)} cannot be the name of a LeaseCandidate, as --coordinated needs it: {rule}"
        raise click.UsageError(msg)
    return value


def object_name(value: str, source: str = "--name") -> str:
    """A name that every Kubernetes object may have; click.UsageError otherwise."""
    if len(value) > _LONGEST_NAME or not _DNS_NAME.fullmatch(value):
        rule = f"lower case letters, digits, - and . only, {_LONGEST_NAME} at most, a letter or digit first and last"
        msg = f"{source} {_short(value)} is not an object name: {rule}"
        raise click.UsageError(msg)
    return value


def namespace_name(source: str, value: str) -> str:
    """A namespace's name, or "" for the one that the surroundings give; click.UsageError otherwise."""
    if value and (len(value) > _LONGEST_LABEL or not _DNS_LABEL.fullmatch(value)):
        rule = f"lower case letters, digits and - only, {_LONGEST_LABEL} at most, a letter or digit first and last"
        msg = f"{source} {_short(value)} is not a namespace: {rule}"
        raise click.UsageError(msg)
    return value


def identity(value: str) -> str:
    """Something to tell candidates by; click.UsageError otherwise."""
    if not value.strip() or not value.isprintable() or len(value) > _LONGEST_IDENTITY:
        msg = f"--identity must be 1 to {_LONGEST_IDENTITY} printable characters, and unlike every other candidate's"
        raise click.UsageError(msg)
    return value


def header(option: str, value: str) -> str:
    """What an HTTP header can carry; click.UsageError otherwise."""
    if not (value.isascii() and value.isprintable()) or len(value) > _LONGEST_IDENTITY:
        msg = f"{option} must be at most {_LONGEST_IDENTITY} printable ASCII characters"
        raise click.UsageError(msg)
    return value


def _short(value: str) -> str:
    """Quoted, and cut to what a line holds."""
    return repr(value if len(value) <= _LONGEST_LABEL else f"{value[:_LONGEST_LABEL]}…")
