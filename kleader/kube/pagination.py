"""Lists of the API, page by page (``limit`` and ``continue``)."""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Any

from kleader.kube.client import JSON
from kleader.kube.connection import MAX_RESPONSE_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from kleader.kube.client import ApiClient

_MAX_PAGES = 4000  # a million objects, 250 to a page


async def list_pages(  # noqa: PLR0913 - a list, and how it is requested
    api: ApiClient,
    collection: str,
    query: Mapping[str, str],
    timeout: float,
    *,
    accept: str = JSON,
    max_bytes: int = MAX_RESPONSE_BYTES,
) -> AsyncGenerator[tuple[list[Any], dict[str, Any]], None]:
    """The items, of any JSON type, and the metadata (ListMeta) of each page. LockError, also for an endless list.

    ``timeout`` (seconds), ``accept`` and ``max_bytes`` are each page's.
    """
    plural = collection.rpartition("/")[2]
    parameters: dict[str, str] = {**query}
    tokens: set[str] = set()
    while True:
        target = f"{collection}?{urllib.parse.urlencode(parameters)}" if parameters else collection
        page = await api.call("GET", target, None, timeout, accept=accept, max_bytes=max_bytes)
        items, metadata = page.get("items") or [], page.get("metadata")
        if not isinstance(items, list) or not isinstance(metadata, dict):
            raise api.unreadable(f"something that is not a list of {plural}")
        yield items, metadata
        token = str(metadata.get("continue") or "")
        if not token:
            return
        if token in tokens or len(tokens) == _MAX_PAGES:
            raise api.unreadable(f"a list of {plural} that has no end")
        tokens.add(token)
        parameters["continue"] = token
