"""Warnings of an API server (``Warning: 299``), logged once each, as client-go's warning handler does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_WARNING = re.compile(r'(?:^|,)\s*299 [^ "]+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_MAX_WARNINGS = 20  # of one process: an admission webhook may word each one differently
_MAX_LENGTH = 300


class ServerWarnings:
    """Passes each new warning to ``warn``."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._known: set[str] = set()

    def read(self, header: str) -> None:
        """Read a ``Warning`` header, which may hold several warnings."""
        for quoted in _WARNING.findall(header):
            text = _ESCAPED.sub(r"\1", quoted).encode("latin-1", "replace").decode(errors="replace")
            text = " ".join(text.split())[:_MAX_LENGTH]
            if text and text not in self._known and len(self._known) < _MAX_WARNINGS:
                self._known.add(text)
                self._warn(f"the API server warns: {text}")
