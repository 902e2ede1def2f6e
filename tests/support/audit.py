"""The API server's audit log: the requests of each user, counted by the server itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [
        {"level": "None", "users": ["system:apiserver"]},  # the server's own loopback
        {"level": "Metadata"},
    ],
}


class AuditLog:
    """Reads the log on, as it grows; one entry for each request, however many stages it went through."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0
        self._by_user: dict[str, dict[str, dict[str, Any]]] = {}

    def requests(self, user: str) -> list[dict[str, Any]]:
        """Return what `user` asked for, oldest first.

        An entry is the audit.k8s.io/v1 Event of the request's last stage so far, so `verb`, `requestURI`, `objectRef`,
        `responseStatus` (once answered), `requestReceivedTimestamp`. A request is here as soon as the server has
        received it: stage RequestReceived is written before it is handled.
        """
        with self.path.open("rb") as log:
            log.seek(self._read)
            for line in log:
                if not line.endswith(b"\n"):  # being written just now
                    break
                self._read += len(line)
                event = json.loads(line)
                self._by_user.setdefault(event["user"].get("username", ""), {})[event["auditID"]] = event
        return list(self._by_user.get(user, {}).values())
