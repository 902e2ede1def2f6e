"""Kubeconfigs, and what else is given beside them: the table on which kleader and clientcmd have to agree."""

from __future__ import annotations

import base64
import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    Entry = dict[str, Any]

API = "client.authentication.k8s.io/v1"
IN_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
# Where the two differ, on purpose. kleader-operations(7) has the same list.
POD = "in a Pod the service account is used before ~/.kube/config, as in controller-runtime, also with --as"
DANGLING = "if a context names a cluster or a user that does not exist, it is refused; clientcmd continues without it"
ADDRESS = "an address without a scheme means https; in clientcmd it means http"
USERINFO = "a user name and a password in the API server's address are not sent"
SURROUNDINGS = "POD_NAMESPACE counts wherever it is set; in clientcmd it counts only in a Pod"


def config(
    cluster: object = None, user: object = None, context: Entry | None = None, name: str = "x", **top: object
) -> Entry:
    """A kubeconfig with one context; what is None is left as it usually is."""
    return {
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:1"} if cluster is None else cluster}],
        "users": [{"name": name, "user": {"token": f"token-{name}"} if user is None else user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **(context or {})}}],
        **top,
    }


def cluster(**more: object) -> Entry:
    return config({"server": "https://x:1", **{key.replace("_", "-"): value for key, value in more.items()}})


def user(**more: object) -> Entry:
    return config(user={key.replace("_", "-"): value for key, value in more.items()})


def plugin(answer: object, **more: object) -> Entry:
    script = f"cat <<'END'\n{json.dumps({'apiVersion': API, 'kind': 'ExecCredential', 'status': answer})}\nEND\n"
    usual = {"apiVersion": API, "command": "sh", "args": ["-c", script], "interactiveMode": "Never"}
    return user(exec=usual | more)


@dataclass(frozen=True)
class Row:
    """One invocation: a kubeconfig, or files by their names, and what else is given."""

    about: str
    kubeconfig: object = None  # is in the file config, which KUBECONFIG names unless told otherwise
    options: Entry = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    files: Entry = field(default_factory=dict)
    differs: str = ""


class Pem(NamedTuple):
    """An authority, a client certificate that it issued, and its key."""

    ca: str
    cert: str
    key: str

    @property
    def pair(self) -> Entry:
        """A user's entry."""
        return {"client-certificate-data": data(self.cert), "client-key-data": data(self.key)}


def data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def listed(*names: str) -> dict[str, str]:
    return {"KUBECONFIG": ":".join(names)}


one, two = config(name="one"), config(name="two")
both = {kind: one[kind] + two[kind] for kind in ("clusters", "users", "contexts")}


def rows(pem: Pem) -> Iterator[Row]:
    """The table."""
    yield from of_files()
    yield from of_paths(pem)
    yield from of_contexts(pem)
    yield from of_types(pem)
    yield from of_addresses()
    yield from without_tls(pem)
    yield from of_certificates(pem)
    yield from of_tokens()
    yield from of_impersonation()
    yield from of_plugins(pem)
    yield from of_proxies()
    yield from of_namespaces()
    yield from of_pods()


def of_files() -> Iterator[Row]:
    two_files = listed("a", "b")
    yield Row("one file", config())
    yield Row("no file at all", env={"KUBECONFIG": ""})
    yield Row("~/.kube/config", env={"KUBECONFIG": ""}, files={".kube/config": config()})
    yield Row("--kubeconfig before KUBECONFIG", one, {"kubeconfig": "other"}, files={"other": two})
    yield Row("--kubeconfig of a file that is missing", one, {"kubeconfig": "missing"})
    yield Row("--kubeconfig is no list", options={"kubeconfig": "a:b"}, files={"a": one, "b": two})
    yield Row("--kubeconfig of a file with a colon", options={"kubeconfig": "a:b"}, files={"a:b": one})
    yield Row("the first current-context", env=two_files, files={"a": one, "b": two})
    yield Row(
        "the first current-context that is one",
        env=two_files,
        files={"a": one | {"current-context": ""}, "b": two},
    )
    yield Row("a current-context from the second", env=two_files, files={"a": {"current-context": "two"}, "b": two})
    first = config({"server": "https://first:1"}, {"token": "first"})
    second = config(
        {"server": "https://second:1", "tls-server-name": "s"}, {"token": "second", "as": "s"}, {"namespace": "s"}
    )
    yield Row("an entry of the first is taken whole", env=two_files, files={"a": first, "b": second})
    shared = {"a": {"users": first["users"]}, "b": second}
    yield Row("a user of the first for a context of the second", env=two_files, files=shared)
    yield Row("a list with missing files and empty names", env=listed("none", "", "a", "a", "none2"), files={"a": one})
    yield Row("a list of nothing but missing files", env=listed("none", "none2"))
    yield Row("an empty file in a list", env=listed("empty", "a"), files={"empty": b"", "a": one})
    yield Row("a file of comments", env=listed("comments", "a"), files={"comments": b"# none\n---\n", "a": one})
    yield Row("an empty file alone", b"")
    yield Row("null", b"null")
    yield Row("a broken file in a list", env=two_files, files={"a": one, "b": b"a: ["})
    yield Row("a list that is no mapping", b"[]")
    yield Row("text", b"hello")
    yield Row("two documents", json.dumps(one).encode() + b"\n---\n" + json.dumps(two).encode())
    yield Row("a directory", options={"kubeconfig": "."})
    yield Row("another version", config() | {"apiVersion": "v2", "kind": "Config"})
    yield Row("another kind", config() | {"apiVersion": "v1", "kind": "Pod"})
    yield Row("a tilde is no home", env=listed("~/a"), files={"a": one})


def of_paths(pem: Pem) -> Iterator[Row]:
    relative = config({"server": "https://x:1", "certificate-authority": "ca.pem"}, {"tokenFile": "../token"})
    yield Row(
        "paths relative to their file",
        options={"kubeconfig": "sub/a"},
        files={"sub/a": relative, "sub/ca.pem": pem.ca, "token": "t\n"},
    )
    apart = {
        "sub/a": {"clusters": relative["clusters"]},
        "b": user(**{"client-certificate": "c.pem", "client-key": "k.pem"}),
        "sub/ca.pem": pem.ca,
        "c.pem": pem.cert,
        "k.pem": pem.key,
    }
    yield Row("each path relative to its own file", env=listed("sub/a", "b"), files=apart)
    answer = {"apiVersion": API, "kind": "ExecCredential", "status": {"token": "p"}}
    files = {"sub/a": plugin({}, command="./p", args=[]), "sub/p": f"#!/bin/sh\necho '{json.dumps(answer)}'"}
    yield Row("a plugin relative to its file", options={"kubeconfig": "sub/a"}, files=files)


def of_contexts(pem: Pem) -> Iterator[Row]:
    yield Row("--context", {**both, "current-context": "one"}, {"context": "two"})
    yield Row("--context that is missing", one, {"context": "two"})
    yield Row("a current-context that is missing", config() | {"current-context": "y"})
    yield Row("no current-context", both)
    yield Row("--cluster and --user without a context", both, {"cluster": "one", "user": "two"})
    yield Row("--cluster", {**both, "current-context": "one"}, {"cluster": "two"})
    yield Row("--user", {**both, "current-context": "one"}, {"user": "two"})
    yield Row("--cluster that is missing", one, {"cluster": "two"})
    yield Row("--user that is missing", one, {"user": "two"})
    yield Row("a context with a cluster that is missing", config(context={"cluster": "y"}))
    yield Row("a context with a user that is missing", config(context={"user": "y"}), differs=DANGLING)
    yield Row("a cluster that is missing, in a Pod", config(context={"cluster": "y"}), env=IN_POD, differs=DANGLING)
    yield Row("a context without a user", config(context={"user": ""}))
    yield Row("users that are null", config() | {"users": None}, differs=DANGLING)
    yield Row("a user that is null", config() | {"users": [{"name": "x", "user": None}]})
    yield Row("a cluster that is null", config() | {"clusters": [{"name": "x", "cluster": None}]})
    yield Row("two contexts of one name", config() | {"contexts": config()["contexts"] * 2})
    yield Row("two users of one name", config() | {"users": config()["users"] * 2})
    yield Row("two clusters of one name", config() | {"clusters": config()["clusters"] * 2})
    yield Row("a key twice", json.dumps(config()).replace("{", '{"current-context": "y", ', 1).encode())


def of_types(pem: Pem) -> Iterator[Row]:
    for about, broken in (
        ("a token that is a number", user(token=5)),
        (
            "a user elsewhere with a token that is a number",
            config() | {"users": [*config()["users"], {"name": "y", "user": {"token": 5}}]},
        ),
        ("insecure-skip-tls-verify as text", cluster(insecure_skip_tls_verify="true")),
        ("contexts as text", config(contexts="x")),
        ("groups as text", user(**{"token": "t", "as": "a", "as-groups": "g"})),
        ("a context name that is a number", config() | {"current-context": 5}),
        (
            "what is unknown",
            config({"server": "https://x:1", "frobnicate": 5}, {"token": "t", "cert": []}) | {"more": {}},
        ),
    ):
        yield Row(about, broken)
    written = "{current-context: CONTEXT, contexts: [{name: CONTEXT, context: {cluster: x}}], clusters: [{name: x,"
    written += "cluster: {server: 'https://x:1', insecure-skip-tls-verify: INSECURE}}]}"
    for context, insecure in (("2024-01-01", "no"), ("x", "yes"), ("0x10", "no"), ("x", "on"), ("1.5", "no")):
        yield Row(
            f"{context} and {insecure}", written.replace("CONTEXT", context).replace("INSECURE", insecure).encode()
        )


def of_addresses() -> Iterator[Row]:
    addresses = "https://x https://x:8443/a/b/ https://[::1]:6443 HTTPS://x:1 https://x:1?q#f https://X.Y:1"
    for address in addresses.split():
        yield Row(f"the address {address}", cluster(server=address))
    yield Row("an address without a scheme", cluster(server="x:6443"), differs=ADDRESS)
    yield Row("a name and a password in the address", config({"server": "https://u:p@x:1"}, {}), differs=USERINFO)
    yield Row("a name and a password in the address, and a token", cluster(server="https://u:p@x:1"))
    yield Row("an address of another scheme", cluster(server="ftp://x"))
    yield Row("a cluster without a server", config({"insecure-skip-tls-verify": True}))
    yield Row("--server", config(), {"server": "https://y:2"})
    yield Row("--server over tls-server-name", cluster(tls_server_name="s"), {"server": "https://y:2"})
    yield Row("tls-server-name", cluster(tls_server_name="s"))
    yield Row("--server and --cluster", {**both, "current-context": "one"}, {"server": "https://y:2", "cluster": "two"})
    yield Row("--server without a kubeconfig", None, {"server": "https://y:2"}, {"KUBECONFIG": ""})
    nowhere = {"current-context": "x", "contexts": [{"name": "x", "context": {"namespace": "n"}}]}
    yield Row("--server and a context without a cluster", nowhere, {"server": "https://y:2"})


def without_tls(pem: Pem) -> Iterator[Row]:
    for about, entry in (
        ("a token", {"token": "t"}),
        ("a token file", {"tokenFile": "missing"}),
        ("a password", {"username": "u", "password": "p"}),
        ("a certificate", pem.pair),
        ("a plugin", plugin({"token": "t"})["users"][0]["user"]),
        ("nothing, as for kubectl proxy", {}),
        ("impersonation", {"as": "a"}),
    ):
        yield Row(f"{about}, over http", config({"server": "http://127.0.0.1:8001"}, entry))
    yield Row("a token over http by --server", config(), {"server": "http://x:1"})
    yield Row("a token over HTTP in capitals", cluster(server="HTTP://x:1"))


def of_certificates(pem: Pem) -> Iterator[Row]:
    yield Row("a certificate", user(**pem.pair))
    yield Row("a certificate and a token", user(**pem.pair, token="t"))
    yield Row(
        "a certificate from files",
        user(**{"client-certificate": "c", "client-key": "k"}),
        files={"c": pem.cert, "k": pem.key},
    )
    yield Row(
        "a certificate as data and a file", user(**pem.pair, **{"client-certificate": "c"}), files={"c": pem.cert}
    )
    yield Row("a key as data and a file", user(**pem.pair, **{"client-key": "k"}), files={"k": pem.key})
    yield Row("a certificate without a key", user(**{"client-certificate-data": data(pem.cert)}))
    yield Row("a key without a certificate", user(**{"client-key-data": data(pem.key)}))
    yield Row("a certificate that is missing", user(**{"client-certificate": "none", "client-key": "none"}))
    yield Row("a certificate that is no base64", user(**{**pem.pair, "client-certificate-data": "%"}))
    yield Row("a certificate that is none", user(**{**pem.pair, "client-certificate-data": data("x")}))
    yield Row("an authority", cluster(certificate_authority_data=data(pem.ca)))
    yield Row("an authority in lines", cluster(certificate_authority_data=base64.encodebytes(pem.ca.encode()).decode()))
    twice = cluster(certificate_authority_data=data(pem.ca), certificate_authority="ca")
    yield Row("an authority as data and a file", twice, files={"ca": pem.ca})
    yield Row("an authority that is missing", cluster(certificate_authority="none"))
    yield Row("an authority that is none", cluster(certificate_authority_data=data("x")))
    yield Row("insecure", cluster(insecure_skip_tls_verify=True))
    yield Row("insecure with a server name", cluster(insecure_skip_tls_verify=True, tls_server_name="s"))
    yield Row(
        "insecure with an authority", cluster(insecure_skip_tls_verify=True, certificate_authority_data=data(pem.ca))
    )


def of_tokens() -> Iterator[Row]:
    yield Row("a token file", user(tokenFile="t"), files={"t": " token\n"})
    yield Row("a token file before the token", user(token="t", tokenFile="t"), files={"t": "file"})
    yield Row("a token where the token file is missing", user(token="t", tokenFile="none"))
    yield Row("a token file that is missing", user(tokenFile="none"))
    yield Row("a token file that is empty", user(tokenFile="t"), files={"t": "\n"})
    yield Row("a name and a password", user(username="u", password="p:q"))
    yield Row("a name without a password", user(username="u"))
    yield Row("a password without a name", user(password="p"))
    yield Row("a token and a password", user(token="t", username="u", password="p"))
    yield Row("a token file and a password", user(tokenFile="t", username="u", password="p"), files={"t": "file"})
    yield Row("a token that is empty", user(token=""))
    yield Row("a token with a line end", user(token="t\n"))
    yield Row("a token beyond ASCII", user(token="t\N{SNOWMAN}"))


def of_impersonation() -> Iterator[Row]:
    extra = {"as-user-extra": {"example.org/scopes": ["a", "b"], "A%b": ["c"]}}
    yield Row("impersonation", user(**{"token": "t", "as": "a", "as-uid": "u", "as-groups": ["g", "h"]}, **extra))
    yield Row("impersonation beyond ASCII", user(**{"token": "t", "as": "J\N{LATIN SMALL LETTER O WITH DIAERESIS}rg"}))
    yield Row("--as", config(), {"as": "a"})
    yield Row("--as over impersonation", user(**{"token": "t", "as": "a", "as-groups": ["g"]}), {"as": "b"})
    yield Row("groups without a user", user(**{"token": "t", "as-groups": ["g"]}))
    yield Row("a uid without a user", user(**{"token": "t", "as-uid": "u"}))
    yield Row("extra without a user", user(token="t", **extra))
    yield Row("groups with --as", user(**{"token": "t", "as-groups": ["g"]}), {"as": "b"})


def of_plugins(pem: Pem) -> Iterator[Row]:
    token = {"token": "by-plugin"}
    yield Row("a plugin's token", plugin(token))
    yield Row("a plugin's certificate", plugin({"clientCertificateData": pem.cert, "clientKeyData": pem.key}))
    yield Row("a plugin's certificate without a key", plugin({"clientCertificateData": pem.cert}))
    yield Row("a plugin that says nothing", plugin({}))
    yield Row("a plugin of another version", plugin(token, apiVersion=f"{API}beta1"))
    yield Row("a plugin of an old version", plugin(token, apiVersion=f"{API}alpha1"))
    yield Row("a plugin without a command", plugin(token, command=""))
    yield Row("a plugin that is missing", plugin(token, command="no-such-plugin"))
    yield Row("a plugin that fails", plugin(token, command="false"))
    yield Row("a plugin that wants a terminal", plugin(token, interactiveMode="Always"))
    yield Row("a plugin that takes a terminal", plugin(token, interactiveMode="IfAvailable"))
    yield Row("a plugin without interactiveMode", plugin(token, interactiveMode=""))
    yield Row("a plugin of another interactiveMode", plugin(token, interactiveMode="Perhaps"))
    yield Row("a plugin's variable without a name", plugin(token, env=[{"name": "", "value": "x"}]))
    repeats = "import base64, json, os; told = json.loads(os.environ['KUBERNETES_EXEC_INFO'])"
    repeats += "; text = json.dumps([told, os.environ['A'], os.getcwd()], sort_keys=True)"
    repeats += "; status = {'token': base64.b64encode(text.encode()).decode()}"
    repeats += "; print(json.dumps({'apiVersion': told['apiVersion'], 'kind': 'ExecCredential', 'status': status}))"
    entry = {
        "server": "https://x:1/",
        "tls-server-name": "s",
        "certificate-authority-data": data(pem.ca),
        "proxy-url": "http://p:1",
        "disable-compression": True,
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}],
    }
    for wants in (True, False):
        more = {"args": ["-c", repeats], "env": [{"name": "A", "value": "b"}], "provideClusterInfo": wants}
        told = plugin(token, command=sys.executable, **more) | {"clusters": [{"name": "x", "cluster": entry}]}
        yield Row(f"what a plugin is told, provideClusterInfo: {wants}", told)
    script = plugin(token)["users"][0]["user"]["exec"]
    yield Row("a token and a plugin", user(token="t", exec=script))
    yield Row("a certificate and a plugin", user(**pem.pair, exec=script))
    yield Row("an exec that is null", user(exec=None))
    yield Row("an auth-provider that is gone", user(**{"auth-provider": {"name": "gcp"}}))
    yield Row("an auth-provider and a plugin", user(**{"auth-provider": {"name": "oidc"}, "exec": script}))
    head, claims = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "none"}, {"exp": 4102444800})
    )
    oidc = {
        "name": "oidc",
        "config": {"idp-issuer-url": "https://x", "client-id": "c", "id-token": f"{head}.{claims}.x"},
    }
    yield Row("an OIDC provider's token", user(**{"auth-provider": oidc}))
    yield Row("a token and an OIDC provider", user(**{"auth-provider": oidc, "token": "t"}))


def of_proxies() -> Iterator[Row]:
    yield Row("a proxy", cluster(proxy_url="http://p:3128"))
    yield Row("a proxy without a port", cluster(proxy_url="http://p"))
    yield Row("a proxy that is nonsense", cluster(proxy_url="http://[x"))
    yield Row("a proxy without a scheme", cluster(proxy_url="p:3128"))
    yield Row("a SOCKS proxy", cluster(proxy_url="socks5://p:1080"))
    yield Row("an HTTPS proxy", cluster(proxy_url="https://p"))
    yield Row("a proxy of another kind", cluster(proxy_url="ftp://p"))


def of_namespaces() -> Iterator[Row]:
    named, surroundings = config(context={"namespace": "n"}), {"POD_NAMESPACE": "p"}
    for about, more in (("outside", dict[str, str]()), ("in a Pod", IN_POD)):
        yield Row(f"the context's namespace, {about}", named, env=more)
        yield Row(f"the context's namespace before POD_NAMESPACE, {about}", named, env=surroundings | more)
        yield Row(
            f"POD_NAMESPACE, {about}",
            config(),
            env=surroundings | more,
            differs="" if more else SURROUNDINGS,
        )
        yield Row(
            f"a context of default before POD_NAMESPACE, {about}",
            config(context={"namespace": "default"}),
            env=surroundings | more,
        )
    yield Row("the namespace of the service account", config(), env=IN_POD)


def of_pods() -> Iterator[Row]:
    yield Row("the service account", env={"KUBECONFIG": "", **IN_POD})
    yield Row("the service account, and POD_NAMESPACE", env={"KUBECONFIG": "", "POD_NAMESPACE": "p", **IN_POD})
    yield Row("the service account, IPv6", env={"KUBECONFIG": "", **IN_POD, "KUBERNETES_SERVICE_HOST": "fd00::1"})
    yield Row("a Pod without a port", env={"KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    yield Row("KUBECONFIG in a Pod", config(), env=IN_POD)
    yield Row("a missing KUBECONFIG in a Pod", env={**listed("none"), **IN_POD})
    yield Row("an empty KUBECONFIG in a Pod", b"", env=IN_POD)
    yield Row(
        "~/.kube/config in a Pod", env={"KUBECONFIG": "", **IN_POD}, files={".kube/config": config()}, differs=POD
    )
    yield Row("--context in a Pod", None, {"context": "x"}, {"KUBECONFIG": "", **IN_POD}, {".kube/config": config()})
    yield Row("--server in a Pod", None, {"server": "https://y:2"}, {"KUBECONFIG": "", **IN_POD})
    yield Row("--as in a Pod", None, {"as": "a"}, {"KUBECONFIG": "", **IN_POD}, differs=POD)
