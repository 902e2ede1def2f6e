"""A plan of which a test gives what it reads."""

from __future__ import annotations

from typing import Any

from kleader.election.timing import Timing
from kleader.ipc.plan import Plan, Pod

TIMING = Timing(15, 10.0, 2.0, 3.0, 0.5, 1.5)


def plan_of(**known: Any) -> Plan:  # noqa: ANN401 - of each field's type
    """Every other field is empty, and of the timing the default; fields that no plan has are ignored."""
    timing = TIMING._replace(**{name: known[name] for name in Timing._fields if name in known})
    empty = dict.fromkeys(Plan.__annotations__, "") | {"pod": Pod("", "", "")}
    return Plan(**{name: known.get(name, empty[name]) for name in empty} | {"timing": timing})
