"""Values as documents that other programs read."""

from __future__ import annotations

import re
from typing import Any

import yaml

# Texts that Go's YAML takes for something else and Python's does not.
_AMBIGUOUS = re.compile(r"|[yYnN]|[-+]?\.?\d.*", re.DOTALL)


class _Dumper(yaml.SafeDumper):
    """Without anchors, which nobody reads, and with everything in quotes that any reader may take for no text."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        """Each value is written out."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _AMBIGUOUS.fullmatch(text) or not text.isprintable() else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(*documents: Any) -> str:  # noqa: ANN401 - JSON
    """YAML documents as kubectl prints them: keys in alphabetical order, lists not indented, lines not folded."""
    return "---\n".join(
        yaml.dump(each, Dumper=_Dumper, allow_unicode=True, default_flow_style=False, width=1 << 20)
        for each in documents
    )
