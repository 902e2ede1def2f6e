"""Reads a plain kubeconfig: one file, and in it a token or a certificate.

The ``kubernetes`` package takes a fifth of a second to import, which is half of a start. So it is left what is not
beyond doubt: plugins, providers, passwords, proxies, several files, and whatever is wrong.
"""

from __future__ import annotations

import base64
import os
from typing import Any

_AUTHORITY, _CERTIFICATE, _KEY = "certificate-authority", "client-certificate", "client-key"
_CLUSTER = {"server", "insecure-skip-tls-verify", "tls-server-name", _AUTHORITY, f"{_AUTHORITY}-data", "extensions"}
_USER = {"token", "as", "as-groups", _CERTIFICATE, f"{_CERTIFICATE}-data", _KEY, f"{_KEY}-data"}


def read(options: dict[str, str]) -> dict[str, Any] | None:
    """The access, as the ``kubernetes`` package would have it; None where it has to be asked."""
    if options.get("cluster") or options.get("user") or os.pathsep in options["kubeconfig"]:
        return None
    try:
        return _read(os.path.expanduser(options["kubeconfig"]), options.get("context"))
    except Exception:  # noqa: BLE001 - the ``kubernetes`` package finds out what is wrong, and says it
        return None


def _read(path: str, name: str | None) -> dict[str, Any] | None:
    import yaml  # noqa: PLC0415 - comes with ``kubernetes``; without it that is asked

    with open(path, encoding="utf-8") as file:
        whole = yaml.safe_load(file)
    name = name or whole["current-context"]
    context = _named(whole, "context", name)
    cluster, user = _named(whole, "cluster", context["cluster"]), _named(whole, "user", context["user"])
    server, insecure = cluster["server"].rstrip("/"), cluster.get("insecure-skip-tls-verify", False)
    odd = cluster.keys() - _CLUSTER or user.keys() - _USER or None in (*cluster.values(), *user.values())
    if odd or not server.startswith("https://") or not isinstance(insecure, bool):
        return None
    base, token = os.path.abspath(os.path.dirname(path)), _text(user, "token") if "token" in user else ""
    return {
        "server": server,
        "ca": _content(cluster, _AUTHORITY, base),
        "cert": _content(user, _CERTIFICATE, base),
        "key": _content(user, _KEY, base),
        "authorization": f"Bearer {token}".strip() if token else "",
        "token_file": "",
        "context": name,
        "namespace": context.get("namespace") or "",
        "server_name": cluster.get("tls-server-name") or "",
        "insecure": insecure,
        "proxy": "",
        "impersonate": user.get("as") or "",
        "groups": user.get("as-groups") or [],
        "expires": None,
    }


def names(paths: str, kind: str) -> list[str]:
    """Of the contexts, clusters or users of kubeconfigs, as KUBECONFIG names them; none of what cannot be read."""
    import yaml  # noqa: PLC0415 - likewise

    found: dict[str, None] = {}
    for path in paths.split(os.pathsep):
        try:
            with open(os.path.expanduser(path), encoding="utf-8") as file:
                found |= dict.fromkeys(str(each["name"]) for each in yaml.safe_load(file)[kind])
        except Exception:  # noqa: BLE001, S112 - another command finds out what is wrong, and says it
            continue
    return list(found)


def _named(whole: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    """The only entry of its kind and name. ValueError or KeyError: there is none, or another."""
    (found,) = [each[kind] for each in whole[f"{kind}s"] if each["name"] == name]
    if not isinstance(found, dict):
        raise TypeError
    return found


def _text(entry: dict[str, Any], key: str) -> str:
    found = entry[key]
    if not isinstance(found, str):
        raise TypeError
    return found


def _content(entry: dict[str, Any], key: str, base: str) -> str:
    """What the entry has as base64, which comes first, or in a file; "" where it has neither."""
    data = f"{key}-data"
    if data in entry:
        return base64.b64decode("".join(_text(entry, data).split()), validate=True).decode()
    if key in entry:
        with open(os.path.join(base, _text(entry, key)), encoding="utf-8") as file:
            return file.read()
    return ""
