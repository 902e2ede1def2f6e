"""Reads objects of the API that may hold anything."""

from __future__ import annotations

from typing import Any


def string_map(found: object) -> dict[str, Any]:
    """A field that should be an object, such as labels or annotations; {} if it is anything else."""
    return found if isinstance(found, dict) else {}


def owner_names(metadata: dict[str, Any]) -> list[str]:
    """The owners of an object, as ``KIND NAME``."""
    owners = metadata.get("ownerReferences")
    named = [owner for owner in owners if isinstance(owner, dict)] if isinstance(owners, list) else []
    return [f"{owner.get('kind')} {owner.get('name')}" for owner in named]
