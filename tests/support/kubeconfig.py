"""Kubeconfigs of a cluster that does not answer."""

from __future__ import annotations

NO_SERVER = "https://127.0.0.1:1"  # nothing listens on port 1


def config(cluster: object = None, user: object = None, **top: object) -> dict[str, object]:
    """A kubeconfig with these entries replaced; an entry that is None is left out."""
    whole: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": NO_SERVER} if cluster is None else cluster}],
        "users": [{"name": "x", "user": {"token": "secret-token"} if user is None else user}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        **top,
    }
    return {key: value for key, value in whole.items() if value is not None}


def cluster(**more: object) -> dict[str, object]:
    """A kubeconfig whose cluster has these entries too, with - for _."""
    return config(cluster={"server": NO_SERVER, **{key.replace("_", "-"): value for key, value in more.items()}})
