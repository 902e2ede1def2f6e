"""Reads a kubeconfig, exec plugins and all, in a process of its own that ends.

What it imports would weigh on a waiting candidate for weeks. Prints one JSON object: an access, or
``{"error": sentence}``.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

from kleader import platform
from kleader.locks import plain

_AUTHORITY, _CERTIFICATE, _KEY = "certificate-authority-data", "client-certificate-data", "client-key-data"
_TEXTS = {
    "server": "server",
    "authorization": "token",
    "token_file": "tokenFile",
    "namespace": "namespace",
    "server_name": "tls-server-name",
    "proxy": "proxy-url",
    "impersonate": "as",
    "context": "current-context",
}


def main(options: dict[str, str]) -> None:
    """Print the access that the options' kubeconfig, context, cluster and user give.

    An exec plugin may hang: it ends with this process, and that with the elector, by TERM.
    """
    os.setsid()
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
    platform.die_with_parent(signal.SIGTERM)
    complaints: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: complaints.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a plugin or a library prints is no part of the answer
    try:
        access = read(options, complaints)
    except Exception as error:  # noqa: BLE001 - every library of every plugin may raise anything
        access = {"error": _sentence(options, error, complaints)}
    json.dump(access, answer)
    answer.close()


def read(options: dict[str, str], complaints: list[str]) -> dict[str, Any]:
    """The access as plain data. Whatever the ``kubernetes`` package raises, or a ValueError of its own."""
    access = plain.read(options) or ask_library(options, complaints)
    _check_texts(access)
    return access


def ask_library(options: dict[str, str], complaints: list[str]) -> dict[str, Any]:
    """What the ``kubernetes`` package makes of it; ``complaints`` are what it logs meanwhile."""
    from kubernetes.client import Configuration  # noqa: PLC0415 - 40 MB
    from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger  # noqa: PLC0415

    merged = KubeConfigMerger(options["kubeconfig"]).config
    if merged is None:
        msg = "it is empty, or does not exist"
        raise ValueError(msg)
    context = named = options.get("context") or merged.safe_get("current-context") or None
    if options.get("cluster") or options.get("user"):
        context = _overridden(merged, named, options)
    memory = "/dev/shm"  # noqa: S108 - keys are written there instead of to a disk, mode 0600, and deleted at exit
    place = memory if os.access(memory, os.W_OK) else None
    loader = KubeConfigLoader(merged, context, config_base_path=None, temp_file_path=place)  # None: the file's own
    found = Configuration()
    loader.load_and_set(found)
    context_entry = loader.current_context["context"]
    wanted = context_entry.get("user")
    if wanted and loader._user is None:  # noqa: SLF001 - it offers no other way to the user's entry
        msg = f"it has no user {wanted!r}"
        raise ValueError(msg)
    user = loader._user.value if loader._user else {}  # noqa: SLF001
    cluster = loader._cluster.value  # noqa: SLF001
    for entry, key in ((cluster, _AUTHORITY), (user, _CERTIFICATE), (user, _KEY)):
        _check_base64(entry, key)
    token = (found.api_key or {}).get("BearerToken", "").strip()  # with its scheme; a file's last line may have an end
    if "exec" in user and not token and not found.cert_file:
        msg = complaints[-1] if complaints else "its exec plugin gave no credentials"
        raise ValueError(msg)
    expiry = getattr(loader, "expiry", None)
    if not isinstance(cluster.get("insecure-skip-tls-verify", False), bool):
        msg = "insecure-skip-tls-verify is neither true nor false"
        raise ValueError(msg)  # noqa: TRY004 - of the same kind as every other refusal here
    return {
        "server": found.host,
        "ca": _content(found.ssl_ca_cert),
        "cert": _content(found.cert_file),
        "key": _content(found.key_file),
        "authorization": token,
        "token_file": _token_file(loader, user),
        "context": named or "",
        "namespace": context_entry.get("namespace") or "",
        "server_name": cluster.get("tls-server-name") or "",
        "insecure": not found.verify_ssl,
        "proxy": cluster.get("proxy-url") or "",
        "impersonate": user.get("as") or "",
        "groups": user.get("as-groups") or [],
        "expires": expiry.timestamp() if expiry else None,
    }


def _check_base64(entry: Any, key: str) -> None:  # noqa: ANN401
    """The library drops what is not base64, so that nothing may be left of a certificate. ValueError names the key."""
    data = entry.get(key)
    if data:
        try:
            base64.b64decode("".join(str(data).split()), validate=True)
        except ValueError:
            msg = f"{key} is not base64"
            raise ValueError(msg) from None


def _check_texts(access: dict[str, Any]) -> None:
    """What goes into addresses and headers is text that they can carry. ValueError names what is not."""
    for key, name in _TEXTS.items():
        if not isinstance(access[key], str):
            msg = f"{name} is not a string"
            raise ValueError(msg)  # noqa: TRY004 - of the same kind as every other refusal here
    if not isinstance(access["groups"], list) or not all(isinstance(group, str) for group in access["groups"]):
        msg = "as-groups is not a list of strings"
        raise ValueError(msg)
    for name, text in (
        ("the token", access["authorization"]),
        *(("as and as-groups", text) for text in (access["impersonate"], *access["groups"])),
    ):
        if not (text.isascii() and text.isprintable()):
            msg = f"{name} cannot be sent: only printable ASCII characters can"
            raise ValueError(msg)


def _overridden(merged: Any, context: str | None, options: dict[str, str]) -> str:  # noqa: ANN401
    """As kubectl has --cluster and --user: the named or current context with another cluster or user."""
    base = dict(merged["contexts"].get_with_name(context)["context"].value) if context else {}
    base |= {key: options[key] for key in ("cluster", "user") if options.get(key)}
    merged.value.setdefault("contexts", []).append({"name": "kleader-override", "context": base})
    return "kleader-override"


def _token_file(loader: Any, user: Any) -> str:  # noqa: ANN401
    """Read anew for every request, as client-go does: it outranks the token that is written beside it."""
    path = user.get("tokenFile")
    return os.path.join(loader._get_base_path(loader._user.path), os.path.expanduser(path)) if path else ""  # noqa: SLF001


def _content(path: str | None) -> str:
    return Path(path).read_text(encoding="utf-8") if path else ""


def _sentence(options: dict[str, str], error: Exception, complaints: list[str]) -> str:
    if isinstance(error, OSError) and error.strerror:
        detail = f"{error.filename}: {error.strerror}"
    elif isinstance(error, (AttributeError, IndexError, KeyError, TypeError)):
        detail = "something in it is not of the type that belongs there, compare kubectl config view"
    elif isinstance(error, UnicodeDecodeError):
        detail = "it, or what it refers to, is not text"
    else:
        detail = _line(str(error)) or type(error).__name__
    if complaints and _line(complaints[-1]) not in detail:
        detail += f" ({_line(complaints[-1])})"
    return f"cannot use the kubeconfig {options['kubeconfig']}: {detail[:500]}"


def _line(text: str) -> str:
    """One line without what the library quotes from the file: that holds credentials."""
    return re.sub(r"\[Errno \d+\] |\{.*\}", "", " ".join(text.split()))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
