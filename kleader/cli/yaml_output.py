"""YAML as kubectl prints it, for programs that read it."""

from __future__ import annotations

import re
from typing import Any

import yaml

from kleader.log import printable

# Strings that Go's YAML reads as another type, and Python's does not.
_AMBIGUOUS = re.compile(r"|[yYnN]|[-+]?\.?\d.*", re.DOTALL)


class _Dumper(yaml.SafeDumper):
    """Without anchors, and with quotes around every string that a reader could take for another type."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        """Write out every value."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _AMBIGUOUS.fullmatch(text) or not text.isprintable() else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(*documents: Any) -> str:  # noqa: ANN401 - JSON
    """YAML documents as kubectl prints them: keys in alphabetical order, lists not indented, lines not folded.

    Characters that are not printable are escaped in double quotes, where Python's escapes are YAML's.
    """
    whole = "---\n".join(
        yaml.dump(document, Dumper=_Dumper, allow_unicode=True, default_flow_style=False, width=1 << 20)
        for document in documents
    )
    return "\n".join(map(printable, whole.split("\n")))
