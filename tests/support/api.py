"""A small synchronous client of the Kubernetes API, plain JSON: the tests' oracle, independent of kleader's code."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from tests.support.processes import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

Object = dict[str, Any]
PLURAL = {"Endpoints": "endpoints", "NetworkPolicy": "networkpolicies"}
CLUSTER_WIDE = {"Namespace", "Node", "ClusterRole", "ClusterRoleBinding", "FlowSchema"}


class ApiError(AssertionError):
    """The server answered with an error: `status`, and the body as it came."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        super().__init__(f"{method} {path}: {status}: {body[:2000]}")
        self.status = status
        self.body = body


class Api:
    """Calls as one user. One connection a call, so that a restart of the server in between does not matter."""

    def __init__(
        self,
        url: str,
        ca_file: str | Path | None,
        *,
        token: str | None = None,
        certificate: tuple[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None, url
        self.host, self.port = parts.hostname, parts.port or 443
        self._tls = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
        if certificate:
            self._tls.load_cert_chain(*certificate)
        self._headers = dict(headers or {})
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    # --- any request
    def request(
        self,
        method: str,
        path: str,
        body: Object | str | None = None,
        *,
        timeout: float = PATIENCE,
        mime: str = "application/json",
    ) -> tuple[int, str]:
        """Send one request, a text as it is, and return status and body; OSError where there is no answer."""
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=self._tls)
        try:
            data = body.encode() if isinstance(body, str) else json.dumps(body) if body else None
            connection.request(method, path, data, self._headers | {"Content-Type": mime})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def call(
        self, method: str, path: str, body: Object | str | None = None, *, mime: str = "application/json"
    ) -> Object:
        """Send one request and return the answer's JSON; ApiError for anything but 2xx."""
        status, text = self.request(method, path, body, mime=mime)
        if not 200 <= status < 300:
            raise ApiError(method, path, status, text)
        answer: Object = json.loads(text)
        return answer

    # --- objects as plain JSON
    def get(self, path: str) -> Object:
        return self.call("GET", path)

    def find(self, path: str) -> Object | None:
        """Return the object, or None where there is none (404)."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == http.HTTPStatus.NOT_FOUND:
                return None
            raise

    def list(self, path: str) -> list[Object]:
        items: list[Object] = self.get(path)["items"]
        return items

    def create(self, thing: Object) -> Object:
        """POST the object to where its apiVersion, kind and metadata.namespace say."""
        return self.call("POST", path_of(thing, named=False), thing)

    def put(self, thing: Object) -> Object:
        """PUT the object, as it is, to its own path."""
        return self.call("PUT", path_of(thing), thing)

    def apply(self, thing: Object) -> Object:
        """Create the object, or replace it, whatever is there."""
        try:
            return self.create(thing)
        except ApiError as error:
            if error.status != http.HTTPStatus.CONFLICT:
                raise
        old = self.get(path_of(thing))
        version = {"resourceVersion": old["metadata"]["resourceVersion"]}
        return self.put({**thing, "metadata": {**thing["metadata"], **version}})

    def merge(self, path: str, patch: Object) -> Object:
        """PATCH the object with a JSON merge patch: None takes a field away."""
        return self.call("PATCH", path, patch, mime="application/merge-patch+json")

    def delete(self, path: str) -> Object:
        return self.call("DELETE", path)

    # --- waiting
    def watch(
        self, path: str, *, version: str = "", timeout: float = PATIENCE
    ) -> Generator[tuple[str, Object], None, None]:
        """Yield (type, object) of each event of the one object at `path` after `version`.

        Where `version` is empty the present object, if there is one, comes as the first event. TimeoutError after
        `timeout` s of silence.
        """
        collection, _, name = path.rpartition("/")
        query = {"watch": "1", "fieldSelector": f"metadata.name={name}", "resourceVersion": version}
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=self._tls)
        try:
            connection.request("GET", f"{collection}?{urlencode(query)}", headers=self._headers)
            answer = connection.getresponse()
            if answer.status != http.HTTPStatus.OK:
                raise ApiError("WATCH", path, answer.status, answer.read().decode())
            while line := answer.readline():
                event = json.loads(line)
                yield event["type"], event["object"]
        except socket.timeout as error:  # noqa: UP041 - in Python 3.10 ssl's own is this one
            raise TimeoutError(f"no event on {path} for {timeout:g} s") from error
        finally:
            connection.close()

    def wait(
        self, path: str, until: Callable[[Object | None], object], what: str, *, timeout: float = PATIENCE
    ) -> Object | None:
        """Return the object as soon as `until(object)` is true, None standing for a missing one. It watches.

        AssertionError with the last sight of it where `what` does not come true within `timeout` s.
        """
        deadline = time.monotonic() + timeout
        collection, _, name = path.rpartition("/")
        last: Object | None = None
        while (left := deadline - time.monotonic()) > 0:
            seen = self.get(f"{collection}?fieldSelector=metadata.name%3D{name}")
            last = seen["items"][0] if seen["items"] else None
            if until(last):
                return last
            try:
                for kind, thing in self.watch(path, version=seen["metadata"]["resourceVersion"], timeout=left):
                    if kind == "ERROR" or time.monotonic() > deadline:
                        break
                    last = None if kind == "DELETED" else thing
                    if until(last):
                        return last
            except TimeoutError:
                break
        raise AssertionError(f"{path}: {what}: not within {timeout:g} s; last seen: {json.dumps(last)}")


def path_of(thing: Object, *, named: bool = True) -> str:
    """Return the API path of an object given as JSON: of itself, or of its collection."""
    meta = thing["metadata"]
    return path(thing["apiVersion"], thing["kind"], meta.get("namespace", ""), meta["name"] if named else "")


def path(version: str, kind: str, namespace: str, name: str = "") -> str:
    """Return the path of the object, or without a name of the collection."""
    group = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    place = "" if kind in CLUSTER_WIDE else f"/namespaces/{namespace}"
    return f"{group}{place}/{PLURAL.get(kind, kind.lower() + 's')}" + (f"/{name}" if name else "")


def lease_path(namespace: str, name: str) -> str:
    return path("coordination.k8s.io/v1", "Lease", namespace, name)


def lease(namespace: str, name: str, holder: str, duration: int = 15, **spec: object) -> Object:
    """Return a Lease as JSON; `spec` adds fields or replaces them."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06d}Z"
    base = {"holderIdentity": holder, "leaseDurationSeconds": duration, "leaseTransitions": 0}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {**base, "acquireTime": stamp, "renewTime": stamp, **spec},
    }
