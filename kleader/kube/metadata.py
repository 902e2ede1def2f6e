"""Reads objects of the API that may hold anything."""

from __future__ import annotations

from typing import Any


def string_map(found: object) -> dict[str, Any]:
    """A field that should be an object, such as labels or annotations; {} if it is anything else."""
    return found if isinstance(found, dict) else {}


def string_maps(found: object) -> list[dict[str, Any]]:
    """A field that should be a list of objects, such as owners or causes, without what is no object."""
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def owner_names(metadata: dict[str, Any]) -> list[str]:
    """The owners of an object, as ``KIND NAME``."""
    return [f"{owner.get('kind')} {owner.get('name')}" for owner in string_maps(metadata.get("ownerReferences"))]
