"""Where the API server is and who we are there: in a Pod from its service account, else from a kubeconfig.

The service account's files are read here, anew for every request, since the kubelet rotates them. Kubeconfigs are read
in a process of its own, with their exec plugins and providers by the ``kubernetes`` package.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import math
import os
import ssl
import time
import urllib.parse
from typing import TYPE_CHECKING, Any

from kleader import platform
from kleader.locks.answers import Server
from kleader.locks.base import SetUpError
from kleader.locks.http import Endpoint
from kleader.locks.within import within

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kleader.locks.http import Headers

_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount/"
_HELPER_TIMEOUT = 60.0  # seconds; an exec plugin may ask a cloud
_RENEW_EARLY = 0.8  # of a credential's life
_NO_CLUSTER = (
    "no Kubernetes cluster is configured: give --kubeconfig or set KUBECONFIG,"
    " run it in a Pod with a service account, or use --lock file on one machine"
)


class Credentials:
    """The endpoint and the headers of requests, kept fresh. ``run_helper`` starts the kubeconfig reader."""

    def __init__(self, options: Mapping[str, str], run_helper: Callable[[str], list[str]]) -> None:
        self._options = dict(options)
        self._command = run_helper
        self._access: dict[str, Any] = {}
        self._refused = False
        self._fresh_until = self._expires = math.inf  # wall clock, as the credentials say it
        self._endpoint: Endpoint | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def namespace(self) -> str:
        """client-go's order after the option: POD_NAMESPACE, the service account's file, the context, ``default``."""
        named = os.environ.get("POD_NAMESPACE", "")
        return named or _read(_ACCOUNT + "namespace") or self._access.get("namespace") or "default"

    @property
    def server(self) -> Server:
        """Whom we talk to, for people."""
        access, endpoint = self._access, self._endpoint
        source = access.get("source") or "--kubeconfig, which is not given"
        address = "--server" if self._options.get("server") else access.get("address") or source
        proxy = f"{_bracketed(endpoint.proxy[0])}:{endpoint.proxy[1]}" if endpoint and endpoint.proxy else ""
        return Server(f"the API server {access.get('server', '')}".rstrip(), address, source, proxy)

    @property
    def fresh_for(self) -> float | None:
        """Seconds until they should be read anew; None: they do not expire."""
        return None if self._fresh_until == math.inf else max(1.0, self._fresh_until - time.time())

    def refuse(self) -> None:
        """The server did not accept them: read everything anew before the next request."""
        self._refused = True

    async def refresh(self) -> Endpoint:
        """The endpoint to connect to, after reading what is out of date. SetUpError: there is none.

        What is only about to expire is read beside the request. A reading goes on when nobody waits for it any more: an
        exec plugin may take longer than a request may.
        """
        missing = self._endpoint is None or self._refused or time.time() >= self._expires
        if missing or time.time() >= self._fresh_until:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.get_running_loop().create_task(self._read_anew())
            if missing:
                await asyncio.shield(self._reading)
        assert self._endpoint is not None  # noqa: S101 - it was read, or that has raised
        return self._endpoint

    def headers(self) -> Headers:
        """Of every request: who we are, for whom, and what we are."""
        access = self._access
        token = _read(access.get("token_file", ""))
        authorization = f"Bearer {token}" if token else access.get("authorization", "")
        found = [("User-Agent", "kleader")]
        if authorization:
            found.append(("Authorization", authorization))
        if self._options.get("as"):
            found.append(("Impersonate-User", self._options["as"]))
        elif access.get("impersonate"):
            found.append(("Impersonate-User", access["impersonate"]))
            found += [("Impersonate-Group", group) for group in access["groups"]]
        return found

    async def _read_anew(self) -> None:
        access = await self._find()
        if access != self._access or self._endpoint is None:
            self._endpoint = _endpoint(access)
            self._access = access
        self._refused = False
        now, expires = time.time(), access.get("expires")
        self._expires = expires or math.inf
        self._fresh_until = now + (expires - now) * _RENEW_EARLY if expires else math.inf

    async def _find(self) -> dict[str, Any]:
        options = self._options
        explicit = options.get("kubeconfig") or os.environ.get("KUBECONFIG", "")
        host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
        chosen = any(options.get(key) for key in ("kubeconfig", "context", "cluster", "user"))
        default = os.path.expanduser("~/.kube/config")
        if host and os.path.exists(_ACCOUNT + "token") and not chosen and not explicit:
            port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
            server = f"https://{_bracketed(host)}:{port}"
            access = {
                "server": server,
                "ca": _read(_ACCOUNT + "ca.crt"),
                "token_file": _ACCOUNT + "token",
                "address": "KUBERNETES_SERVICE_HOST",
                "source": "the Pod's service account",
            }
        elif explicit or os.path.exists(default) or chosen:
            path = explicit or default
            access = await self._ask_helper({**options, "kubeconfig": path})
            access["source"] = f"the kubeconfig {path}{_chosen(access, options)}"
        elif options.get("server"):
            access = {}
        else:
            raise SetUpError(_NO_CLUSTER)
        if options.get("server"):
            access["server"] = options["server"]
        return access

    async def _ask_helper(self, options: dict[str, str]) -> dict[str, Any]:
        try:
            helper = await asyncio.create_subprocess_exec(
                *self._command(json.dumps(options)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            msg = f"cannot read the kubeconfig {options['kubeconfig']}: {error.strerror}"
            raise SetUpError(msg) from None
        try:
            async with within(_HELPER_TIMEOUT):
                output, _ = await helper.communicate()
            access = json.loads(output)
        except asyncio.TimeoutError:
            msg = f"reading the kubeconfig {options['kubeconfig']} took longer than {_HELPER_TIMEOUT:.0f}s:"
            msg += " its exec plugin may be waiting for somebody to log in"
            raise SetUpError(msg) from None
        except ValueError:
            msg = f"cannot read the kubeconfig {options['kubeconfig']}"
            raise SetUpError(msg) from None
        finally:
            if helper.returncode is None:  # too late, or nobody wants it any more
                helper.terminate()
                await helper.communicate()
        if access.get("error"):
            raise SetUpError(access["error"])
        return dict(access)


def _chosen(access: Mapping[str, str], options: Mapping[str, str]) -> str:
    """Which parts of the kubeconfig are used, for people."""
    named = {"context": access.get("context"), "cluster": options.get("cluster"), "user": options.get("user")}
    parts = [f"{what} {name}" for what, name in named.items() if name]
    return f" ({', '.join(parts)})" if parts else ""


def _endpoint(access: dict[str, Any]) -> Endpoint:
    server = str(access.get("server") or "")
    try:
        url = urllib.parse.urlsplit(server if "//" in server else f"https://{server}")
        port = url.port or (443 if url.scheme == "https" else 80)
        host = url.hostname or ""
        host.encode("idna")
    except ValueError:
        url, port, host = urllib.parse.urlsplit(""), 0, ""
    if url.scheme not in {"http", "https"} or not host:
        msg = f"the API server's address {server!r} is none: write it as https://HOST:PORT"
        raise SetUpError(msg)
    return Endpoint(
        host,
        port,
        url.netloc.rpartition("@")[2],
        url.path.rstrip("/"),
        _tls(access) if url.scheme == "https" else None,
        access.get("server_name") or host,
        _proxy(access, url.scheme, host),
    )


def _tls(access: dict[str, Any]) -> ssl.SSLContext:
    what = "certificate-authority"
    try:
        tls = ssl.create_default_context(cadata=access.get("ca") or None)
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT  # from Python 3.13 on; client-go takes such certificates too
        if access.get("insecure"):
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        what = "client certificate and key"
        if access.get("cert"):
            fd = platform.anonymous_file()  # OpenSSL wants a file, and keys have no business on a disk
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(f"{access['cert']}\n{access.get('key', '')}\n")
                file.flush()
                tls.load_cert_chain(f"/dev/fd/{fd}", password="")  # nobody is there to be asked for one
    except (ssl.SSLError, ValueError) as error:
        msg = f"the {what} for {access['server']} cannot be used: {error}"
        raise SetUpError(msg) from None
    return tls


def _proxy(access: dict[str, Any], scheme: str, host: str) -> tuple[str, int, str] | None:
    """The cluster's proxy-url, else HTTPS_PROXY and NO_PROXY much as Go's ProxyFromEnvironment has them.

    Not urllib.request's, which would cost a waiting candidate 3 MB.
    """
    name = f"{scheme}_proxy"
    text = access.get("proxy") or ("" if _direct(host) else os.environ.get(name.upper()) or os.environ.get(name, ""))
    if not text:
        return None
    try:
        url = urllib.parse.urlsplit(text if "//" in text else f"http://{text}")
        host, port = url.hostname or "", url.port or 80
        host.encode("idna")
    except ValueError:
        url, host, port = urllib.parse.urlsplit(""), "", 0
    if url.scheme != "http" or not host:
        shown = text.rpartition("@")[2]  # without a password
        msg = f"the proxy {shown!r} cannot be used: write it as http://HOST:PORT, other kinds are not supported"
        raise SetUpError(msg)
    authorization = ""
    if url.username:
        import base64  # noqa: PLC0415

        pair = f"{urllib.parse.unquote(url.username)}:{urllib.parse.unquote(url.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
    return host, port, authorization


def _direct(host: str) -> bool:
    """Whether NO_PROXY exempts the host: loopback always, else by name, domain, address or network."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if host == "localhost" or (address and address.is_loopback):
        return True
    for entry in (os.environ.get("NO_PROXY") or os.environ.get("no_proxy", "")).split(","):
        rule = entry.strip().lower().lstrip("*")
        domain = "." + rule.lstrip(".")
        if entry.strip() == "*" or (rule and ("." + host.lower()).endswith(domain)):
            return True
        try:
            if address and address in ipaddress.ip_network(rule, strict=False):
                return True
        except ValueError:
            continue
    return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""
