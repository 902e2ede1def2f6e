"""A kubeconfig means what it means to kubectl and costs little to read; what is wrong with it is said in a line."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from kubernetes.config import load_kube_config_from_dict

from kleader.cli.api_access import credentials_of
from kleader.kube import credentials, kubeconfig
from kleader.kube.errors import SetUpError
from tests.cluster import kubeconfigs
from tests.support.kubeconfig import NO_SERVER, cluster, config

if TYPE_CHECKING:
    from kleader.kube.credentials import Credentials

ROOT = Path(__file__).parents[2]
V1 = "client.authentication.k8s.io/v1"


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Outside of any Pod, in an empty home."""
    for name in ("KUBECONFIG", "POD_NAMESPACE", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def context(**more: object) -> dict[str, object]:
    return config(contexts=[{"name": "x", "context": {"cluster": "x", "user": "x", **more}}])


def plugin(script: str, **more: object) -> dict[str, object]:
    entry = {"apiVersion": V1, "command": "/bin/sh", "args": ["-c", script], "interactiveMode": "Never"}
    return config(user={"exec": entry | more})


def credential(**status: object) -> str:
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})


def encoded(content: object) -> bytes:
    return content if isinstance(content, bytes) else json.dumps(content).encode()


def read(options: dict[str, str]) -> Credentials:
    """What a command reads that only looks. SetUpError."""
    known = credentials_of(options)
    asyncio.run(known.refresh())
    return known


def refusal(options: dict[str, str]) -> str:
    with pytest.raises(SetUpError) as raised:
        read(options)
    return str(raised.value)


# --- several files


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The files of KUBECONFIG=a/one:b/two, each with a context of its own, and each a token file named token."""
    found = []
    for directory, name in (("a", "one"), ("b", "two")):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "token").write_text(f"of-{name}")
        entries = {
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": name}}],
            "clusters": [{"name": name, "cluster": {"server": f"https://{name}:1"}}],
            "users": [{"name": name, "user": {"tokenFile": "token"}}],
        }
        found.append(tmp_path / directory / name)
        found[-1].write_bytes(encoded({"current-context": name, **entries}))
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, found)))
    return found[0], found[1]


def test_first_current_context_counts_and_paths_are_relative_to_their_own_file(
    two: tuple[Path, Path],
) -> None:
    first = read({})
    assert (first.server.name, first.namespace) == ("the API server https://one:1", "one")
    assert ("Authorization", "Bearer of-one") in first.headers()
    other = read({"context": "two"})
    assert (other.server.name, other.namespace) == ("the API server https://two:1", "two")
    assert ("Authorization", "Bearer of-two") in other.headers()


def test_entry_of_the_first_kubeconfig_is_not_merged_with_a_later_one(two: tuple[Path, Path]) -> None:
    """Nothing of another file's entry of the same name is added to it."""
    entry = {"name": "one", "cluster": {"server": "http://elsewhere", "tls-server-name": "elsewhere"}}
    two[1].write_bytes(encoded({"clusters": [entry]}))
    found = kubeconfig.read({})
    assert (found["server"], found["server_name"]) == ("https://one:1", "")


def test_files_of_a_list_may_be_missing_but_a_named_file_must_exist(
    two: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").write_text("")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}:{tmp_path / 'empty'}::{two[1]}")
    assert read({}).namespace == "two"
    assert refusal({"kubeconfig": str(tmp_path / "missing")}).endswith("it does not exist")
    hint = "it does not exist: --kubeconfig takes one file, KUBECONFIG a list"
    assert refusal({"kubeconfig": f"{two[0]}:{two[1]}"}).endswith(hint)


# --- the namespace


@pytest.mark.parametrize(
    ("named", "pod", "expected"),
    [("n", ("p", "a"), "n"), ("default", ("p", "a"), "default"), ("", ("p", "a"), "p"), ("", ("", "a"), "a")],
)
def test_namespace_of_the_context_comes_before_the_pod_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, pod: tuple[str, str], expected: str
) -> None:
    """As in kubectl."""
    path = tmp_path / "config"
    path.write_bytes(encoded(context(namespace=named)))
    (tmp_path / "namespace").write_text(pod[1])
    monkeypatch.setattr(credentials, "_ACCOUNT", f"{tmp_path}/")
    monkeypatch.setenv("POD_NAMESPACE", pod[0])
    assert read({"kubeconfig": str(path)}).namespace == expected


# --- credentials


@pytest.mark.parametrize("server", ["http://h", "HTTP://h", "http://h:8001/"])
@pytest.mark.parametrize("by_option", [True, False])
def test_no_credential_is_read_or_sent_without_tls_and_a_notice_says_so(
    tmp_path: Path, server: str, *, by_option: bool
) -> None:
    asked = tmp_path / "asked"
    users = [
        {"token": "secret-token"},
        {"tokenFile": "/nowhere"},
        {"username": "u", "password": "secret-token"},
        plugin(f"touch {asked}; echo '{credential(token='t')}'")["users"][0]["user"],  # type: ignore[index]
    ]
    for user in users:
        path, options = tmp_path / "config", {"server": server} if by_option else {}
        path.write_bytes(encoded(config(None if by_option else {"server": server}, user)))
        known = read({"kubeconfig": str(path), **options})
        assert "Authorization" not in dict(known.headers())
        assert len(known.notices) == 1
        assert not asked.exists()


def test_http_without_credentials_works_as_with_kubectl_proxy(tmp_path: Path) -> None:
    """An address without a scheme is one of https."""
    (tmp_path / "config").write_bytes(encoded(config({"server": "http://127.0.0.1:8001"}, {})))
    known = read({"kubeconfig": str(tmp_path / "config")})
    assert (known.server.name, known.notices) == ("the API server http://127.0.0.1:8001", [])
    (tmp_path / "config").write_bytes(encoded(config({"server": "h:6443"})))
    known = read({"kubeconfig": str(tmp_path / "config")})
    assert (known.server.name, known.notices) == ("the API server https://h:6443", [])
    assert "Authorization" in dict(known.headers())


def test_service_account_token_is_not_sent_to_a_named_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("secret-token")
    monkeypatch.setattr(credentials, "_ACCOUNT", f"{tmp_path}/")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "h")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    assert ("Authorization", "Bearer secret-token") in read({}).headers()
    elsewhere = read({"server": "https://elsewhere"})
    assert "Authorization" not in dict(elsewhere.headers())
    assert elsewhere.notices == ["with --server the Pod's service account is not used, as for kubectl"]


# --- what is wrong

KUBECONFIGS: dict[str, tuple[object, str]] = {
    "empty": (b"", "it does not exist, or is empty"),
    "null": (b"null", "it does not exist, or is empty"),
    "binary": (b"\x00\xff\xfe", "it is not YAML"),
    "text": (b"hello", "its content is not a mapping"),
    "a list": ([], "its content is not a mapping"),
    "no YAML": (b"a: [", "it is not YAML: see line 2"),
    "a hundred thousand brackets": (b"{" * 100_000, "it is nested too deeply"),
    "a number that is none": (b"a: !!int abc", "it is not YAML: a number in it is invalid"),
    "a number of five thousand digits": (b"a: " + 5000 * b"9", "it is not YAML: a number in it is invalid"),
    "a Python object": (b"!!python/object/apply:os.system [id]", "it is not YAML: see line 1"),
    "another object": (b"{kind: Deployment, apiVersion: apps/v1}", "are 'Deployment apps/v1', not 'Config v1'"),
    "an object": ({}, "it does not exist, or is empty"),
    "no current context": (config(**{"current-context": None}), "it sets no current-context"),
    "an unknown context": (config(**{"current-context": "nope"}), "it has no context 'nope'"),
    "a number for a context": (config(**{"current-context": 5}), "current-context is not a string"),
    "no contexts": (config(contexts=None), "it has no context 'x'"),
    "contexts as text": (config(contexts="x"), "contexts is not a list"),
    "a null context": (config(contexts=[None]), "it has no context 'x'"),
    "a context of text": (config(contexts=[{"name": "x", "context": "y"}]), "context is not a mapping"),
    "a context without a cluster": (
        config(contexts=[{"name": "x", "context": {"user": "x"}}]),
        "its context 'x' names no cluster",
    ),
    "a missing cluster": (context(cluster="q"), "it has no cluster 'q'"),
    "a missing user": (context(user="q"), "it has no user 'q'"),
    "no users": (config(users=None), "it has no user 'x'"),
    "no clusters": (config(clusters=None), "it has no cluster 'x'"),
    "users as a number": (config(users=5), "users is not a list"),
    "two of one name": (config(users=[{"name": "x"}, {"name": "x"}]), "two of its users have the name 'x'"),
    "a cluster of text": (config(cluster="hi"), "cluster is not a mapping"),
    "a user of text": (config(user="u"), "user is not a mapping"),
    "a namespace that is a number": (context(namespace=5), "namespace is not a string"),
    "a server that is a number": (cluster(server=5), "server is not a string"),
    "no server": (config(cluster={"tls-server-name": "x"}), "its cluster 'x' has no server"),
    "a proxy that is a number": (cluster(proxy_url=5), "proxy-url is not a string"),
    "a proxy without a scheme": (cluster(proxy_url="p:1"), "the proxy-url of its cluster has no scheme"),
    "an authority that is no base64": (cluster(**{"certificate-authority-data": "%%%"}), "data is not base64"),
    "an authority that is binary": (cluster(certificate_authority_data="//79/A=="), "is not UTF-8 text"),
    "an authority that is a number": (cluster(certificate_authority_data=5), "authority-data is not a string"),
    "a missing authority": (cluster(certificate_authority="/no/ca"), "/no/ca: No such file or directory"),
    "an authority twice": (
        cluster(certificate_authority="/no/ca", certificate_authority_data="YQ=="),
        "it has certificate-authority and certificate-authority-data: remove one",
    ),
    "a certificate without a key": (config(user={"client-certificate-data": "YQ=="}), "but no client-key"),
    "a missing certificate": (config(user={"client-certificate": "/no/c", "client-key": "/no/k"}), "/no/c: No such"),
    "a missing token file": (config(user={"tokenFile": "/no/token"}), "/no/token: No such file or directory"),
    "a directory as token file": (config(user={"tokenFile": "/etc"}), "/etc: Is a directory"),
    "a token of two lines": (config(user={"token": "a\nb"}), "a token or a user name in it has a control character"),
    "a token and a password": (config(user={"token": "secret-token", "password": "p"}), "remove one"),
    "impersonation of a number": (config(user={"token": "t", "as": 5}), "as is not a string"),
    "impersonation of two lines": (config(user={"token": "t", "as": "a\nb"}), "has a control character"),
    "groups as text": (config(user={"token": "t", "as": "a", "as-groups": "g"}), "as-groups is not a list"),
    "a group of nobody": (config(user={"token": "t", "as-groups": ["g"]}), "or as-user-extra without as"),
    "a maybe for insecure": (
        cluster(insecure_skip_tls_verify="false"),
        "insecure-skip-tls-verify is not true or false",
    ),
    "an auth provider": (config(user={"auth-provider": {"name": "gcp"}}), "its auth-provider is 'gcp'"),
    "a provider without its token": (
        config(user={"auth-provider": {"name": "oidc", "config": {"client-secret": "secret-token"}}}),
        "its OIDC provider gave no token: ",
    ),
    "a provider and a plugin": (
        config(user={"auth-provider": {"name": "oidc"}, "exec": {"apiVersion": V1, "command": "true"}}),
        "its user has an auth-provider and exec: remove one",
    ),
    "an exec of text": (config(user={"exec": "x"}), "exec is not a mapping"),
    "a plugin without a command": (config(user={"exec": {"apiVersion": V1}}), "its exec plugin has no command"),
    "a plugin of an old version": (plugin("", apiVersion=f"{V1}alpha1"), "apiVersion of its exec plugin is"),
    "a plugin of no mode": (plugin("", interactiveMode=""), "the interactiveMode of its exec plugin is ''"),
    "a plugin that is missing": (
        plugin("", command="/no/plugin", installHint="install it\nfrom there"),
        "its exec plugin /no/plugin cannot be started: No such file or directory; install it from there",
    ),
    "a plugin that is not in PATH": (plugin("", command="no-plugin"), "no-plugin cannot be started: No such file"),
    "a plugin that wants a terminal": (plugin("", interactiveMode="Always"), "has interactiveMode Always"),
    "a plugin that fails": (plugin("echo log in again >&2; exit 3"), "/bin/sh ended with status 3; log in again"),
    "a plugin that says nothing": (plugin("true"), "did not print an ExecCredential"),
    "a plugin that prints garbage": (plugin("echo hello"), "did not print an ExecCredential"),
    "a plugin that prints too much": (
        plugin(f"echo hello; echo '{credential(token='t')}'"),
        "did not print an ExecCredential",
    ),
    "a plugin that prints a list": (plugin("echo []"), "did not print an ExecCredential"),
    "a plugin without a status": (plugin(f"echo '{credential()}'"), "ExecCredential with a token or certificate"),
    "a plugin with half a certificate": (
        plugin(f"echo '{credential(clientCertificateData='secret-token')}'"),
        "ExecCredential with a token or certificate",
    ),
    "a plugin's time that is none": (
        plugin(f"echo '{credential(token='secret-token', expirationTimestamp='soon')}'"),
        "did not print an ExecCredential",
    ),
}


@pytest.mark.parametrize("name", KUBECONFIGS)
def test_invalid_kubeconfig_is_one_line_without_a_secret(tmp_path: Path, name: str) -> None:
    content, sentence = KUBECONFIGS[name]
    path = tmp_path / "config"
    path.write_bytes(encoded(content))
    said = refusal({"kubeconfig": str(path)})
    assert said.startswith(f"cannot use the kubeconfig {path}: ")
    assert sentence in said
    assert "secret-token" not in said
    assert "\n" not in said


HELLO = "aGVsbG8="  # no PEM, in base64
UNUSABLE = {
    "an authority that is no certificate": (cluster(certificate_authority_data=HELLO), "the certificate-authority for"),
    "a certificate that is none": (
        config(user={"client-certificate-data": HELLO, "client-key-data": HELLO}),
        f"the client certificate and key for {NO_SERVER} cannot be used: ",
    ),
    "a proxy of another kind": (cluster(proxy_url="ftp://u:secret-token@x"), "the proxy 'x' cannot be used: write it"),
    "a proxy that is nonsense": (cluster(proxy_url="http://[x"), "the proxy 'http://[x' cannot be used"),
}
URLS = ("::::", "https://[::1", "https://h:999999", "https://h:x", "ftp://h", "https://", "https://a..b")


@pytest.mark.parametrize("name", UNUSABLE)
def test_unusable_certificate_or_proxy_is_one_line_without_a_secret(tmp_path: Path, name: str) -> None:
    content, sentence = UNUSABLE[name]
    (tmp_path / "config").write_bytes(encoded(content))
    said = refusal({"kubeconfig": str(tmp_path / "config")})
    assert said.startswith(sentence)
    assert "secret-token" not in said


@pytest.mark.parametrize("url", [*URLS, f"https://{'x' * 70}.org"])
@pytest.mark.parametrize("by_option", [True, False])
def test_invalid_api_server_url_is_refused(tmp_path: Path, url: str, *, by_option: bool) -> None:
    (tmp_path / "config").write_bytes(encoded(config(None if by_option else {"server": url})))
    said = refusal({"kubeconfig": str(tmp_path / "config"), **({"server": url} if by_option else {})})
    shown = url if "//" in url else f"https://{url}"
    assert said == f"invalid API server URL {shown!r}: write it as https://HOST:PORT"


def test_unknown_context_cluster_or_user_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(encoded(config()))
    for kind in ("context", "cluster", "user"):
        assert refusal({"kubeconfig": str(path), kind: "q"}).endswith(f": it has no {kind} 'q': its {kind}s are 'x'")


# --- the differences from clientcmd


def test_the_page_lists_all_differences_from_clientcmd() -> None:
    """At most five, of which tests/cluster/test_kubeconfig.py has proof that they are all."""
    page = (ROOT / "man/kleader-operations.7").read_text("utf-8").replace("\\-", "-")
    section = page.partition("kleader differs from client-go's clientcmd in this:\n.Bl -dash\n.It\n")[2]
    section = section.partition("\n.El\n")[0]
    told = {" ".join(each.replace(".Ev ", "").split()).rstrip(".").lower() for each in section.split("\n.It\n")}
    assert told == {row.differs.lower() for row in kubeconfigs.rows(kubeconfigs.Pem("", "", ""))} - {""}
    assert len(told) <= 5


# --- at what cost

MINIKUBE = """\
apiVersion: v1
clusters:
- cluster:
    certificate-authority: pem
    extensions:
    - extension: {last-update: today, provider: minikube.sigs.k8s.io}
      name: cluster_info
    server: https://192.168.49.2:8443
  name: minikube
contexts:
- context: {cluster: minikube, namespace: default, user: minikube}
  name: minikube
current-context: minikube
kind: Config
preferences: {}
users:
- name: minikube
  user: {client-certificate: pem, client-key: pem}
"""


@pytest.mark.parametrize("user", ["{client-certificate: pem, client-key: pem}", "{tokenFile: pem}", "{token: t}"])
def test_certificate_or_token_is_read_without_importing_kubernetes(tmp_path: Path, user: str) -> None:
    (tmp_path / "pem").write_text("PEM")
    path = tmp_path / "config"
    path.write_text(MINIKUBE.replace("{client-certificate: pem, client-key: pem}", user))
    code = f"""import sys; sys.path.insert(0, {str(ROOT)!r})
from kleader.kube import kubeconfig, credential_plugins as plugins
access = kubeconfig.read({{"kubeconfig": {str(path)!r}}})
assert (access["server"], access["ca"]) == ("https://192.168.49.2:8443", "PEM"), access
assert not {{"kubernetes", "urllib3", "certifi"}} & sys.modules.keys()"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def test_exec_plugin_is_run_without_importing_kubernetes(tmp_path: Path) -> None:
    code = f"""import sys; sys.path.insert(0, {str(ROOT)!r})
from kleader.kube import credential_plugins as plugins
told = {{"apiVersion": {V1!r}, "command": "echo", "args": [{credential(token="t")!r}]}}
assert plugins.run_exec_plugin(told)["authorization"] == "Bearer t"
assert not {{"kubernetes", "urllib3", "certifi"}} & sys.modules.keys()"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def test_all_that_is_used_of_the_kubernetes_package_is_public() -> None:
    """kleader.kube.credential_plugins uses two names of it, to refresh an OIDC token; no other module imports it."""
    source = ast.parse((ROOT / "kleader/kube/credential_plugins.py").read_text())
    used = {
        f"{node.module}.{name.name}"
        for node in ast.walk(source)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("kubernetes")
        for name in node.names
    }
    assert used == {"kubernetes.client.Configuration", "kubernetes.config.load_kube_config_from_dict"}
    parameters = inspect.signature(load_kube_config_from_dict).parameters
    assert {"config_dict", "context", "client_configuration"} <= parameters.keys()


def test_nested_kubeconfig_is_parsed_by_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyYAML's own scanner takes half a minute for 3 KB of brackets; it is there where libyaml is not."""
    used, load_all = [], yaml.load_all

    def spy(data: bytes, loader: type) -> Any:  # noqa: ANN401 - yaml's own
        used.append(loader)
        return load_all(data, loader)

    libyaml = yaml.CSafeLoader
    monkeypatch.setattr(yaml, "load_all", spy)
    files = [("/c", encoded(config()))]
    assert kubeconfig.resolve(files, {})["server"] == NO_SERVER
    monkeypatch.delattr(yaml, "CSafeLoader")
    assert kubeconfig.resolve(files, {})["server"] == NO_SERVER
    assert [issubclass(each, libyaml) for each in used] == [True, False]
    assert issubclass(used[1], yaml.SafeLoader)
