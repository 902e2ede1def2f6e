"""The names that complete an option: entries of the kubeconfig; namespaces, Leases and candidates of a cluster."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from kleader.cli import api_access
from kleader.kube import kubeconfig
from kleader.kube.metadata import string_map

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
    else:
        found = api_access.run(_standbys(params) if kind == "candidates" else _in_cluster(kind, params))
    return [name for name in found if name.startswith(incomplete)]


async def _standbys(params: Mapping[str, Any]) -> list[str]:
    """The identities of those that are registered as ready for the lock that is named on the line, the best first."""
    from kleader.cli import waiting

    async with api_access.client(params) as api:
        name, namespace = params["argument"] or params["name"], params["namespace"] or api.credentials.namespace
        seconds = params.get("request_timeout") or _REQUEST_SECONDS
        known = await waiting.registered(api, namespace, name, params["lock"][0], seconds)
        return [entry.identity for entry in known if entry.is_ready]


async def _in_cluster(kind: str, params: Mapping[str, Any]) -> list[str]:
    """All names of a collection, read page by page."""
    from kleader.kube.pagination import list_pages
    from kleader.locks import candidate_registry as registry

    found: list[str] = []
    seconds = params.get("request_timeout") or _REQUEST_SECONDS
    async with api_access.client(params) as api:
        namespace = params["namespace"] or api.credentials.namespace
        target = registry.target(namespace) if kind == "leases" else "/api/v1/namespaces"
        async with aclosing(list_pages(api, target, {"limit": _PAGE}, seconds, accept=_NAMES_ONLY)) as pages:
            async for items, _ in pages:
                for item in items:
                    name = string_map(string_map(item).get("metadata")).get("name")
                    found += [name] if isinstance(name, str) else []
                if len(found) > _MAX_NAMES:
                    break
    return found
