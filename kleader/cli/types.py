"""The kinds of option values. Each function takes the text, and raises click.UsageError with what would do instead."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kleader.election import duration as go_duration
from kleader.ipc.plan import FOR_LIFE

if TYPE_CHECKING:
    from collections.abc import Callable

LOCKS = ("lease", "configmap", "endpoints", "configmapsleases", "endpointsleases", FOR_LIFE, "file")
SIGNALS = tuple(number.name.removeprefix("SIG") for number in signal.Signals)
STRATEGY = "OldestEmulationVersion"  # the only CoordinatedLeaseStrategy of the control plane
LIVE = "live"

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
_QUANTITY = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([num]|[kMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,3})?", re.ASCII)
_LOCK_ALIASES = {
    alias: lock for lock in LOCKS[:5] for alias in (lock, lock.removesuffix("s"), lock.removesuffix("s") + "s")
}
_LOCK_ALIASES |= {lock: lock for lock in LOCKS[5:]}
_BOOLEANS = {**dict.fromkeys(("1", "t", "true"), True), **dict.fromkeys(("0", "f", "false"), False)}
_MAX_LABEL, _MAX_NAME, _MAX_IDENTITY = 63, 253, 1024  # characters
_MAX_PORT = 65535
_MAX_UID = 2**31 - 1


def duration(value: str) -> float:
    """Seconds, of a Go duration."""
    if len(value) > _MAX_LABEL:
        _refuse(value, "is not a duration")
    try:
        return go_duration.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def duration_or_live(value: str) -> float | str:
    """Seconds, or LIVE."""
    try:
        return LIVE if value == LIVE else duration(value)
    except click.BadParameter as error:
        joint = ", or" if ":" in error.message else "; give a duration or"
        raise click.BadParameter(f'{error.message}{joint} "{LIVE}"') from None


def boolean(value: str) -> bool:
    """What Go's strconv.ParseBool takes, in any case; not "", so that no election is turned off by accident."""
    return _BOOLEANS[value.lower()] if value.lower() in _BOOLEANS else _refuse(value, "is neither true nor false")


def lock(value: str) -> tuple[str, str]:
    """The type of a lock and the absolute path of ``file:PATH``, which is "" for others."""
    kind, colon, path = value.partition(":")
    if kind not in _LOCK_ALIASES or (colon and (kind != "file" or not path)):
        _refuse(value, f"is not a lock type: choose {', '.join(LOCKS)} or file:PATH")
    try:
        return _LOCK_ALIASES[kind], os.path.abspath(path) if path else ""
    except OSError:
        _refuse(path, "is relative to a directory that was deleted: give an absolute path")


def signal_number(value: str) -> int:
    """The number of a signal, which is given by number or by name, with or without SIG."""
    name = value.upper().removeprefix("SIG")
    numbers = {str(int(number)): int(number) for number in signal.valid_signals()}
    if f"SIG{name}" in signal.Signals.__members__:
        return int(signal.Signals[f"SIG{name}"])
    return numbers[value] if value in numbers else _refuse(value, "is not a signal: write it as TERM, SIGTERM or 15")


def verbosity(value: str) -> int:
    """The level of ``-v``, ``-vv`` and klog's ``-v=4``."""
    if re.fullmatch("[0-9]{1,4}", value):
        return int(value)
    return len(value) + 1 if value and not value.strip("v") else _refuse(value, "is not a level: write -v, -vv or -v=4")


def command(value: str) -> list[str]:
    """The words of a command. They are split as a POSIX shell does at quotes and backslashes; there is no shell."""
    try:
        words = shlex.split(value)
    except ValueError as error:
        _refuse(value, f"is not a command: {error}")
    return words if words and words[0] else _refuse(value, "is not a command: it has no words")


def run_key(value: str) -> str:
    """A key of --once, which the lock keeps."""
    valid = value.strip() and value.isprintable() and len(value) <= _MAX_NAME
    return value if valid else _refuse(value, f"is not a key: give 1 to {_MAX_NAME} printable characters")


def quantity(value: str) -> str:
    """An amount of a resource as Kubernetes takes it, ``250m`` or ``128Mi``."""
    valid = len(value) <= _MAX_LABEL and _QUANTITY.fullmatch(value)
    return value if valid else _refuse(value, "is not a quantity: write it as 250m, 0.5, 128Mi or 1Gi")


def uid(value: str) -> int | None:
    """The number of a user; None for ``none``, the image's own user."""
    if value == "none":
        return None
    valid = re.fullmatch("[0-9]{1,10}", value) and int(value) <= _MAX_UID
    return int(value) if valid else _refuse(value, "is not a user: give a number such as 1000, or none")


def label(value: str) -> tuple[str, str]:
    """Key and value of ``KEY=VALUE``, as Kubernetes takes them."""
    key, equals, content = value.partition("=")
    if not (equals and _is_label_key(key) and _is_label_value(content)):
        _refuse(value, "is not a label: write KEY=VALUE, such as app.kubernetes.io/name=worker")
    return key, content


def role_label(value: str) -> list[str]:
    """Key, leader's value and standby's value of ``KEY=LEADER[,STANDBY]``; the last is "" where it is left out."""
    key, _, values = value.partition("=")
    leader, _, standby = values.partition(",")
    valid = leader and leader != standby and all(map(_is_label_value, (leader, standby))) and _is_label_key(key)
    return [key, leader, standby] if valid else _refuse(value, "is not a label: write KEY=LEADER or KEY=LEADER,STANDBY")


def _is_label_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    valid = len(name) <= _MAX_LABEL and _LABEL_PART.fullmatch(name)
    return bool(valid and (not slash or (_DNS_NAME.fullmatch(prefix) and len(prefix) <= _MAX_NAME)))


def _is_label_value(value: str) -> bool:
    return len(value) <= _MAX_LABEL and bool(not value or _LABEL_PART.fullmatch(value))


def listen_address(value: str) -> tuple[str, int]:
    """Address and port of ``ADDR:PORT``: "" for all addresses, IPv6 without brackets. Host names are not looked up."""
    host, colon, port = value.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    family = socket.AF_INET6 if bare != host else socket.AF_INET
    bare = "127.0.0.1" if bare == "localhost" else bare
    try:
        valid = colon and re.fullmatch("[0-9]{1,5}", port) and int(port) <= _MAX_PORT
        valid = valid and (not host or bool(socket.inet_pton(family, bare)))
    except (OSError, ValueError):
        valid = False
    if not valid:
        _refuse(value, "is not an address: write 127.0.0.1:8080, [::1]:8080, or :8080 for all addresses")
    return bare, int(port)


def version(value: str) -> str:
    """A whole semantic version (https://semver.org) above 0.0.0, which is what the API server takes."""
    if len(value) > _MAX_LABEL or not _VERSION.fullmatch(value) or precedence(value) == precedence("0.0.0"):
        _refuse(value, "is not a whole semantic version: write it as 1.36.0")
    return value


def minor_version(value: str) -> int:
    """The minor number of a Kubernetes version, as 25 of 1.25, v1.25.3 or 1.25+."""
    match = re.fullmatch(r"v?1\.(\d{1,4})([.+-].*)?", value)
    return int(match[1]) if match else _refuse(value, "is not a Kubernetes version: write it as 1.25")


def strategy(value: str) -> str:
    """A CoordinatedLeaseStrategy: the control plane's own, or a qualified name with a domain."""
    valid = value == STRATEGY or ("/" in value and _is_label_key(value))
    return value if valid else _refuse(value, f"is not a strategy: write {STRATEGY} or example.com/NAME")


def precedence(version: str) -> tuple[Any, ...]:
    """The sort key of a semantic version: a pre-release is lower than its release, numbers are lower than words."""
    match = _VERSION.fullmatch(version)
    assert match  # noqa: S101 - checked by version()
    *numbers, before = match.groups()
    parts = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in before.split(".")] if before else []
    return (*map(int, numbers), not before, parts)


def object_name(value: str) -> str:
    """A name that every Kubernetes object may have."""
    rule = f"lower case letters, digits, - and . only, {_MAX_NAME} at most, a letter or digit first and last"
    valid = len(value) <= _MAX_NAME and _DNS_NAME.fullmatch(value)
    return value if valid else _refuse(value, f"is not an object name: {rule}")


def namespace(value: str) -> str:
    """The name of a namespace, or "" for the default one."""
    rule = f"lower case letters, digits and - only, {_MAX_LABEL} at most, a letter or digit first and last"
    valid = not value or (len(value) <= _MAX_LABEL and _DNS_LABEL.fullmatch(value))
    return value if valid else _refuse(value, f"is not a namespace: {rule}")


def identity(value: str) -> str:
    """An identity that a record can carry."""
    valid = value.strip() and value.isprintable() and len(value) <= _MAX_IDENTITY
    return value if valid else _refuse(value, f"is not an identity: give 1 to {_MAX_IDENTITY} printable characters")


def header(value: str) -> str:
    """A value that an HTTP header can carry."""
    valid = value.isascii() and value.isprintable() and len(value) <= _MAX_IDENTITY
    return value if valid else _refuse(value, f"is not a user: give at most {_MAX_IDENTITY} printable ASCII characters")


def is_candidate_name(identity: str) -> bool:
    """Whether an identity can be the name of a LeaseCandidate."""
    valid = len(identity) <= _MAX_NAME and _CANDIDATE.fullmatch(identity)
    return bool(valid and identity != "." and not identity.startswith(".."))


def variable(name: str, kind: Callable[[str], str]) -> str:
    """The value of an environment variable that is no option's, "" if it is not set; click.UsageError."""
    value = os.environ.get(name, "")
    try:
        return value and kind(value)
    except click.BadParameter as error:
        raise click.UsageError(f"{name} {error.message}") from None


def _refuse(value: str, reason: str) -> NoReturn:
    short = value if len(value) <= _MAX_LABEL else f"{value[:_MAX_LABEL]}…"
    raise click.BadParameter(f"{short!r} {reason}")
