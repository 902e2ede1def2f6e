"""A module, or a class, with other code in one place for as long as a test wants it."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


@contextmanager
def rewritten(module: ModuleType, old: str, new: str) -> Iterator[None]:
    """The module as if its source had said ``new`` where it says ``old``."""
    assert module.__file__
    source, saved = Path(module.__file__).read_text(), dict(vars(module))
    assert source.count(old) == 1, f"{module.__name__} does not say {old!r} just once: keep this list up to date"
    exec(compile(source.replace(old, new), module.__file__, "exec"), vars(module))  # noqa: S102 - a mutant
    try:
        yield
    finally:
        vars(module).update(saved)


@contextmanager
def replaced(targets: tuple[Any, ...], name: str, value: object) -> Iterator[None]:
    """Something else under a name."""
    saved = [getattr(target, name) for target in targets]
    for target in targets:
        setattr(target, name, value)
    try:
        yield
    finally:
        for target, was in zip(targets, saved, strict=True):
            setattr(target, name, was)
