"""Values by small numbers, so that two worlds are one where nothing tells them apart; and time without a clock.

Every instant that the election is told is `NOW`. Instead of the clock going on, what a value remembers goes back: a
float above `DURATIONS` is an instant, in whatever field of whatever dataclass it stands. What is long past is `PAST`,
what is far off stays `FAR` off.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from math import inf
from typing import Any, Generic, TypeVar

NOW = 1_000_000.0  # seconds, the instant of every step
DURATIONS = 500_000.0  # seconds, more than any duration
PAST, FAR = 16.0, 100.0  # seconds from now

T = TypeVar("T")
_known: dict[type, tuple[str, ...]] = {}


class Numbered(Generic[T]):
    """Each value once, found by its number."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._numbers: dict[Any, int] = {}

    def number(self, value: T) -> int:
        """The same for equal values."""
        known = key(value)
        found = self._numbers.get(known)
        if found is None:
            found = self._numbers[known] = len(self.values)
            self.values.append(value)
        return found

    def __getitem__(self, number: int) -> T:
        return self.values[number]

    def __len__(self) -> int:
        return len(self.values)


def _names(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - a dataclass's
    kind = type(value)
    if kind not in _known:
        _known[kind] = tuple(field.name for field in fields(kind))
    return _known[kind]


def key(value: Any) -> Any:  # noqa: ANN401 - any value
    """What is equal where the values are, and can be looked up; a mutable dataclass cannot."""
    if is_dataclass(value) and type(value).__hash__ is None:
        return type(value), *(key(getattr(value, name)) for name in _names(value))
    return value


def later(value: Any, seconds: float) -> Any:  # noqa: ANN401 - any value
    """What is left of a value when so much time has passed, told from the new `NOW`."""
    if isinstance(value, float):
        return _later(value, seconds)
    if isinstance(value, frozenset):
        return frozenset(later(each, seconds) for each in value)
    if isinstance(value, tuple):
        parts = [later(each, seconds) for each in value]
        if all(one is other for one, other in zip(value, parts, strict=True)):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if is_dataclass(value) and not isinstance(value, type):
        old = {name: getattr(value, name) for name in _names(value)}
        new = {name: later(each, seconds) for name, each in old.items()}
        changed = {name: each for name, each in new.items() if each is not old[name]}
        return replace(value, **changed) if changed else value
    return value


def _later(instant: float, seconds: float) -> float:
    if instant < DURATIONS or instant == inf:
        return instant
    if instant >= NOW + FAR - seconds and instant <= NOW + FAR:  # not within reach, and not coming nearer
        return NOW + FAR
    return min(max(instant - seconds, NOW - PAST), NOW + FAR)


def renumbered(value: T, ranks: dict[int, int] | None = None) -> T:
    """With serial numbers of requests that begin at 0, in their order: they only tell one from the next."""
    if ranks is None:
        found: set[int] = set()
        _serials(value, found)
        ranks = {serial: rank for rank, serial in enumerate(sorted(found))}
    changed: dict[str, Any] = {}
    for name in _names(value):
        each = getattr(value, name)
        if name == "serial":
            changed[name] = ranks[each]
        elif is_dataclass(each) and "serial" in _names(each):
            changed[name] = renumbered(each, ranks)
    return replace(value, **changed) if changed else value  # type: ignore[type-var]


def _serials(value: Any, found: set[int]) -> None:  # noqa: ANN401 - any value
    for name in _names(value):
        each = getattr(value, name)
        if name == "serial":
            found.add(each)
        elif is_dataclass(each) and "serial" in _names(each):
            _serials(each, found)
