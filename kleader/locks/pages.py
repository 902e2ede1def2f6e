"""A list of the API page by page, as its ``limit`` and ``continue`` divide it."""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Any

from kleader.locks.api import JSON
from kleader.locks.http import MOST

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from kleader.locks.api import Api

_MOST_PAGES = 4000  # of 250 objects the last would be the millionth


async def pages(  # noqa: PLR0913 - of which list, and how it is asked for
    api: Api,
    collection: str,
    query: Mapping[str, str],
    timeout: float,
    *,
    accept: str = JSON,
    most: int = MOST,
) -> AsyncGenerator[tuple[list[Any], dict[str, Any]], None]:
    """Items, whatever they are, and metadata (ListMeta) of each page; LockError, also for a list that has no end.

    ``timeout``, ``accept`` and ``most`` are each page's.
    """
    plural = collection.rpartition("/")[2]
    asked: dict[str, str] = {**query}
    tokens: set[str] = set()
    while True:
        target = f"{collection}?{urllib.parse.urlencode(asked)}" if asked else collection
        page = await api.call("GET", target, None, timeout, accept=accept, most=most)
        items, metadata = page.get("items") or [], page.get("metadata")
        if not isinstance(items, list) or not isinstance(metadata, dict):
            raise api.unreadable(f"something that is no list of {plural}")
        yield items, metadata
        token = str(metadata.get("continue") or "")
        if not token:
            return
        if token in tokens or len(tokens) == _MOST_PAGES:
            raise api.unreadable(f"a list of {plural} that has no end")
        tokens.add(token)
        asked["continue"] = token
