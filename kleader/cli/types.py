"""Kinds of option values, each refused in one sentence that says what would do."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING, Any

import click

from kleader.election import duration

if TYPE_CHECKING:
    from collections.abc import Iterable

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LONGEST_LABEL, _LONGEST_NAME, _LONGEST_IDENTITY = 63, 253, 1024


class Duration(click.ParamType):
    """A Go duration, in seconds; ``words`` are accepted as they are."""

    name = "duration"

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._words = tuple(words)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """Seconds, or one of the words."""
        if not isinstance(value, str) or value in self._words:
            return value
        try:
            return duration.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class LockType(click.ParamType):
    """``lease``, or ``file`` with or without a path; as a pair of type and path."""

    name = "lock"
    aliases = {"lease": "lease", "leases": "lease", "file": "file"}  # noqa: RUF012 - read only

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """(type, path)."""
        if isinstance(value, tuple):
            return value
        kind, colon, path = value.partition(":")
        if kind not in self.aliases or (colon and (kind != "file" or not path)):
            self.fail(f"{value!r} is not a lock: choose lease, file or file:PATH", param, ctx)
        return self.aliases[kind], os.path.abspath(path) if path else ""


class Signal(click.ParamType):
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
        if name.isdecimal() and int(name) in {int(number) for number in signal.valid_signals()}:
            return int(name)
        return self.fail(f"{value!r} is not a signal: write it as TERM, SIGTERM or 15", param, ctx)


class Verbosity(click.ParamType):
    """``-v``, ``-vv`` and klog's ``-v=4``."""

    name = "n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """How much beyond the usual."""
        if isinstance(value, int):
            return value
        text = value.removeprefix("=")
        if text.isdecimal():
            return int(text)
        if text and not text.strip("v"):
            return len(text) + 1
        return self.fail(f"{value!r} is not a number", param, ctx)


class Label(click.ParamType):
    """``KEY=VALUE`` as Kubernetes takes it; as a pair."""

    name = "key=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """(key, value)."""
        if isinstance(value, tuple):
            return value
        key, equals, content = value.partition("=")
        prefix, slash, name = key.rpartition("/")
        valid = (
            equals
            and len(name) <= _LONGEST_LABEL
            and _LABEL_PART.fullmatch(name)
            and (not slash or (_DNS_NAME.fullmatch(prefix) and len(prefix) <= _LONGEST_NAME))
            and len(content) <= _LONGEST_LABEL
            and (not content or _LABEL_PART.fullmatch(content))
        )
        if not valid:
            self.fail(f"{value!r} is not a label: write it as KEY=VALUE, such as app.kubernetes.io/name=worker", param, ctx)
        return key, content


def object_name(value: str) -> str:
    """A name that every Kubernetes object may have; click.UsageError otherwise."""
    if len(value) > _LONGEST_NAME or not _DNS_NAME.fullmatch(value):
        msg = f"--name {value!r} is not an object name: lower case letters, digits, - and . only, {_LONGEST_NAME} at most"
        raise click.UsageError(msg)
    return value


def namespace_name(value: str) -> str:
    """A namespace's name, or "" for the one that the surroundings give; click.UsageError otherwise."""
    if value and (len(value) > _LONGEST_LABEL or not _DNS_LABEL.fullmatch(value)):
        msg = f"--namespace {value!r} is not a namespace: lower case letters, digits and - only, {_LONGEST_LABEL} at most"
        raise click.UsageError(msg)
    return value


def identity(value: str) -> str:
    """Something to tell candidates by; click.UsageError otherwise."""
    if not value.strip() or not value.isprintable() or len(value) > _LONGEST_IDENTITY:
        msg = f"--identity must be 1 to {_LONGEST_IDENTITY} printable characters, and unlike every other candidate's"
        raise click.UsageError(msg)
    return value
