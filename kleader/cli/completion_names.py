"""The names that complete an option: entries of the kubeconfig; namespaces, Leases and candidates of a cluster."""

from __future__ import annotations

import urllib.parse
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from kleader.kube import kubeconfig

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_PAGE = "500"
_MAX_NAMES = 50_000  # more cannot be chosen from
_REQUEST_SECONDS = 5.0


def names(kind: str, params: Mapping[str, Any], incomplete: str) -> list[str]:
    """The contexts, clusters, users, namespaces, leases or candidates that begin like the word at the cursor.

    ``params``, the options that are already on the line, say which kubeconfig, cluster and namespace is meant.
    LockError, SetUpError.
    """
    if kind in kubeconfig.KINDS:
        found = kubeconfig.names(params, kind)
    elif kind == "candidates":
        from kleader.cli import api_access

        found = api_access.run(_standbys(params))
    else:
        from kleader.cli import api_access

        found = api_access.run(_in_cluster(kind, params))
    return [name for name in found if name.startswith(incomplete)]


async def _standbys(params: Mapping[str, Any]) -> list[str]:
    """The identities of those that are registered as ready for the lock that is named on the line, the best first."""
    from kleader.cli import api_access, waiting
    from kleader.kube.client import ApiClient
    from kleader.locks import candidate_registry as registry

    credentials = api_access.credentials_of(api_access.access(params))
    api = ApiClient(credentials)
    try:
        await credentials.refresh()
        name, namespace = params["argument"] or params["name"], params["namespace"] or credentials.namespace
        found = await registry.read_registry(api, namespace, name, params.get("request_timeout") or _REQUEST_SECONDS)
        known = registry.of_lock(registry.candidates(found, waiting.server_time(api)), params["lock"][0])
        return [each.identity for each in known if each.is_ready]
    finally:
        api.close()


async def _in_cluster(kind: str, params: Mapping[str, Any]) -> list[str]:
    """All names of a collection, read page by page."""
    from kleader.cli import api_access
    from kleader.kube.client import ApiClient
    from kleader.kube.pagination import list_pages

    credentials = api_access.credentials_of(api_access.access(params))
    api = ApiClient(credentials)
    try:
        await credentials.refresh()
        target = "/api/v1/namespaces"
        if kind == "leases":
            namespace = urllib.parse.quote(params["namespace"] or credentials.namespace, safe="")
            target = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        found: list[str] = []
        seconds = params.get("request_timeout") or _REQUEST_SECONDS
        async with aclosing(list_pages(api, target, {"limit": _PAGE}, seconds, accept=_NAMES_ONLY)) as pages:
            async for items, _ in pages:
                for item in items:
                    metadata = item.get("metadata") if isinstance(item, dict) else None
                    if isinstance(metadata, dict) and isinstance(metadata.get("name"), str):
                        found.append(metadata["name"])
                if len(found) > _MAX_NAMES:
                    break
        return found
    finally:
        api.close()
