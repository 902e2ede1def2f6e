"""How the API server is reached: by a Pod's service account, else by a kubeconfig, with credentials kept fresh.

The kubelet rotates the service account's token, so its file is read for each request. A process of its own reads
kubeconfigs and runs plugins: what it imports would stay in a waiting candidate's memory.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from kleader import __version__
from kleader.kube import kubeconfig
from kleader.kube.connection import endpoint_of
from kleader.kube.errors import SetUpError
from kleader.kube.responses import Server, ServerWarnings
from kleader.kube.timeout import within
from kleader.kube.urls import host_port, without_userinfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kleader.kube.connection import Endpoint, Headers

_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount/"
_GOARCH = {"x86_64": "amd64", "aarch64": "arm64"}
_MACHINE = os.uname().machine
USER_AGENT = (
    f"kleader/{__version__} ({sys.platform}/{_GOARCH.get(_MACHINE, _MACHINE)}) leader-election"  # as client-go's
)
_READER_TIMEOUT = 60.0  # seconds; an exec plugin may ask a cloud
_REFRESH_AFTER = 0.8  # of a credential's lifetime
_NO_CLUSTER = (
    "no Kubernetes cluster is configured: give --kubeconfig or set KUBECONFIG, put a kubeconfig into ~/.kube/config,"
    " run it in a Pod with a service account, or use --lock file on one machine"
)


class Credentials:
    """The endpoint and the headers of requests.

    ``options``: context, cluster, user, server, as and kubeconfig, as kubectl's options of these names.
    ``reader_command``: the command of the process that reads kubeconfigs, given the options as JSON. ``in_process``: a
    short-lived process reads kubeconfigs itself unless a plugin must run. ``warn`` gets the API server's warnings.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        reader_command: Callable[[str], list[str]],
        warn: Callable[[str], None] = lambda _: None,
        *,
        in_process: bool = False,
    ) -> None:
        self.warnings = ServerWarnings(warn)
        self._options = dict(options)
        self._reader_command, self._in_process = reader_command, in_process
        self._access: dict[str, Any] = {}  # see kleader.kube.kubeconfig.resolve
        self._invalid = False
        self._refresh_at = self._expires_at = math.inf  # wall clock, in seconds, as credentials have it
        self._endpoint: Endpoint | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def namespace(self) -> str:
        """client-go's order without -n: the context, POD_NAMESPACE, the service account, ``default``."""
        return self._access.get("namespace") or _namespace_of_pod() or "default"

    @property
    def notices(self) -> list[str]:
        """Sentences about how the API server is reached."""
        return list(self._access.get("notices", []))

    @property
    def server(self) -> Server:
        """The API server, as messages name it."""
        access, to = self._access, self._endpoint
        source = access.get("source") or "--kubeconfig, which is not given"
        address = "--server" if self._options.get("server") else access.get("address") or source
        proxy = to.proxy.address if to and to.proxy else ""
        return Server(f"the API server {access.get('server', '')}".rstrip(), address, source, proxy)

    @property
    def fresh_for(self) -> float | None:
        """Seconds until they should be refreshed; None if they do not expire."""
        return None if self._refresh_at == math.inf else max(1.0, self._refresh_at - time.time())

    def invalidate(self) -> None:
        """The API server did not accept them: the next request reads them again."""
        self._invalid = True

    async def read_without_plugins(self) -> None:
        """Read what no plugin has to run for, such as the namespace. SetUpError."""
        self._access = await self._find(plugins=False)

    async def refresh(self) -> Endpoint:
        """The endpoint, after reading what has expired. SetUpError.

        What is about to expire is read beside the request. A reading goes on after its request was given up: an exec
        plugin may take longer than a request may.
        """
        missing = self._endpoint is None or self._invalid or time.time() >= self._expires_at
        if missing or time.time() >= self._refresh_at:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.get_running_loop().create_task(self._read())
            if missing:
                await asyncio.shield(self._reading)
        assert self._endpoint is not None  # noqa: S101 - reading it has not raised
        return self._endpoint

    def headers(self) -> Headers:
        """User-Agent, Authorization and impersonation, for every request."""
        access = self._access
        token = _read_file(access.get("token_file", ""))
        authorization = f"Bearer {token}" if token else access.get("authorization", "")
        found = [("User-Agent", USER_AGENT), *([("Authorization", authorization)] if authorization else [])]
        return found + [(name, value) for name, value in access.get("impersonation", [])]

    async def _read(self) -> None:
        access = await self._find()
        access["server"] = without_userinfo(str(access.get("server") or ""))
        if access != self._access or self._endpoint is None:
            self._endpoint = endpoint_of(access)
            self._access = access
        self._invalid = False
        now, expires = time.time(), access.get("expires")
        self._expires_at = expires or math.inf
        self._refresh_at = now + (expires - now) * _REFRESH_AFTER if expires else math.inf

    async def _find(self, *, plugins: bool = True) -> dict[str, Any]:
        options = self._options
        named = options.get("kubeconfig") or os.environ.get("KUBECONFIG", "")
        path = named or os.path.expanduser("~/.kube/config")
        account = _service_account(options)
        if not named and not any(options.get(key) for key in ("context", "cluster", "user", "server")):
            if account:
                return account
            if not os.path.exists(path):
                raise SetUpError(_NO_CLUSTER)
        try:
            access = kubeconfig.read(options) if self._in_process or not plugins else {}
            if not access or (plugins and access.keys() & {"exec", "oidc"}):
                access = await self._run_reader(path)
        except kubeconfig.KubeconfigError as error:
            if account and isinstance(error, kubeconfig.NoClusterError):
                return account
            raise SetUpError(f"cannot use the kubeconfig {path}: {error}") from None
        if any(map(os.path.exists, kubeconfig.paths(options))):
            parts = {"context": access.get("context"), "cluster": options.get("cluster"), "user": options.get("user")}
            used = ", ".join(f"{what} {name}" for what, name in parts.items() if name)
            access["source"] = f"the kubeconfig {path}" + (f" ({used})" if used else "")
        elif account:
            access["notices"].append("with --server the Pod's service account is not used, as for kubectl")
        return access

    async def _run_reader(self, path: str) -> dict[str, Any]:
        try:
            reader = await asyncio.create_subprocess_exec(
                *self._reader_command(json.dumps(self._options)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise SetUpError(f"cannot read the kubeconfig {path}: {error.strerror}") from None
        try:
            async with within(_READER_TIMEOUT):
                output, _ = await reader.communicate()
            access = json.loads(output)
        except asyncio.TimeoutError:
            raise SetUpError(
                f"reading the kubeconfig {path} took longer than {_READER_TIMEOUT:.0f}s:"
                " its exec plugin may be waiting for a login"
            ) from None
        except ValueError:
            raise SetUpError(
                f"cannot read the kubeconfig {path}: the process that reads it ended without an answer"
            ) from None
        finally:
            if reader.returncode is None:  # timed out or cancelled
                reader.terminate()
                await reader.communicate()
        if access.get("error"):
            raise (kubeconfig.NoClusterError if access["no_cluster"] else kubeconfig.KubeconfigError)(access["error"])
        return dict(access)


def _service_account(options: Mapping[str, str]) -> dict[str, Any]:
    """The access of a Pod's service account; {} outside of a Pod."""
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
    if not host or not port or not os.path.exists(_ACCOUNT + "token"):
        return {}
    return {
        "server": f"https://{host_port(host, port)}",
        "ca": _read_file(_ACCOUNT + "ca.crt"),
        "token_file": _ACCOUNT + "token",
        "address": "KUBERNETES_SERVICE_HOST",
        "source": "the Pod's service account",
        "impersonation": [["Impersonate-User", options["as"]]] if options.get("as") else [],
    }


def _namespace_of_pod() -> str:
    return os.environ.get("POD_NAMESPACE", "") or _read_file(_ACCOUNT + "namespace")


def _read_file(path: str) -> str:
    """The text of a file; "" if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""
