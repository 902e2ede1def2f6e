"""A plan of which a test gives what it reads."""

from __future__ import annotations

from typing import Any

from kleader.ipc.plan import Plan


def plan_of(**known: Any) -> Plan:  # noqa: ANN401 - of each field's type
    """Every other field is an empty string; fields that no plan has are ignored."""
    return Plan(**{name: known.get(name, "") for name in Plan.__annotations__})
