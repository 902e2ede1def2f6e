"""Durations as Go writes them (time.ParseDuration), because manifests carry them over from kube-controller-manager."""

from __future__ import annotations

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_MAX_CHARS = 1000  # characters; Go has no bound
_WHOLE = re.compile(f"(?:{_PART.pattern})+", re.ASCII)  # in linear time: what is left out of it is not looked for
_MAX_SECONDS = 2**63 / 1e9  # Go counts nanoseconds in an int64


def parse(text: str) -> float:
    """Seconds of a Go duration such as ``15s``, ``1m30s``, ``1.5h`` or ``0``; ValueError says what is wrong with it."""
    if text == "0":
        return 0.0
    if text.startswith("-"):
        msg = f"{text!r} is negative"
        raise ValueError(msg)
    rest = text.removeprefix("+")
    if len(rest) > _MAX_CHARS or not _WHOLE.fullmatch(rest):
        msg = f"{text[:_MAX_CHARS]!r} is not a duration: write it as 15s, 500ms or 1m30s"
        raise ValueError(msg)
    seconds = sum(float(part[1]) * _UNITS[part[2]] for part in _PART.finditer(rest))
    if seconds > _MAX_SECONDS:
        msg = f"{text!r} is longer than Go's longest duration, about 292 years"
        raise ValueError(msg)
    return seconds


def text(seconds: float) -> str:
    """The shortest Go spelling that a person reads at once: ``0s``, ``500ms``, ``2.4s``, ``1m30s``, ``2h0m5s``."""
    if seconds < 0:
        return "-" + text(-seconds)
    if 0 < seconds < 1:
        return f"{_trim(seconds * 1000)}ms"
    minutes, rest = divmod(round(seconds, 3), 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = (f"{hours}h" if hours else "", f"{minutes}m" if hours or minutes else "", f"{_trim(rest)}s")
    return "".join(parts)


def _trim(number: float) -> str:
    return f"{number:.3f}".rstrip("0").rstrip(".")
