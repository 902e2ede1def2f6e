"""Reads kubeconfigs as client-go's clientcmd does: the API server, the user and the namespace.

Files and options in, plain data out, or a KubeconfigError. Nothing is run here: an exec plugin or OIDC provider stays a
description, for kleader.kube.credential_plugins.
"""

from __future__ import annotations

import base64
import os
import urllib.parse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Entry = dict[str, Any]

KINDS = ("contexts", "clusters", "users")
EXEC_API = "client.authentication.k8s.io"
_AUTHORITY, _CERTIFICATE, _KEY = "certificate-authority", "client-certificate", "client-key"
_MAX_QUOTED_CHARS = 200
_MAX_DEPTH = 100
_PATHS = (_AUTHORITY, _CERTIFICATE, _KEY, "tokenFile")
# The fields that clientcmd knows, with their types; bytes are in base64. It ignores all others.
_CLUSTER = {
    **dict.fromkeys(("server", "tls-server-name", "proxy-url", _AUTHORITY), str),
    f"{_AUTHORITY}-data": bytes,
    **dict.fromkeys(("insecure-skip-tls-verify", "disable-compression"), bool),
    "extensions": [{"name": str, "extension": object}],
}
_USER = {
    **dict.fromkeys(("token", "tokenFile", "username", "password", "as", "as-uid", _CERTIFICATE, _KEY), str),
    **dict.fromkeys((f"{_CERTIFICATE}-data", f"{_KEY}-data"), bytes),
    "as-groups": [str],
    "as-user-extra": {str: [str]},
    "auth-provider": {"name": str, "config": {str: str}},
    "exec": {
        **dict.fromkeys(("command", "apiVersion", "installHint", "interactiveMode"), str),
        "args": [str],
        "env": [{"name": str, "value": str}],
        "provideClusterInfo": bool,
    },
}
_FILE = {
    **dict.fromkeys(("apiVersion", "kind", "current-context"), str),
    "contexts": [{"name": str, "context": dict.fromkeys(("cluster", "user", "namespace"), str)}],
    "clusters": [{"name": str, "cluster": _CLUSTER}],
    "users": [{"name": str, "user": _USER}],
}


class KubeconfigError(ValueError):
    """A kubeconfig cannot be used. One sentence names the field; it quotes no value that may be a secret."""


class NoClusterError(KubeconfigError):
    """No API server is named, and nothing is wrong: a Pod's service account may name one."""


def read(options: Mapping[str, str]) -> Entry:
    """The access that the options and the kubeconfigs on disk give (see :func:`resolve`). KubeconfigError."""
    try:
        return resolve(_contents(options), options)
    except OSError as error:
        raise KubeconfigError(f"{error.filename}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise KubeconfigError("it, or a file that it names, is not UTF-8 text") from None


def paths(options: Mapping[str, str]) -> list[str]:
    """The paths of the kubeconfigs: --kubeconfig, which is one file; else those in KUBECONFIG; else ~/.kube/config."""
    if options.get("kubeconfig"):
        return [options["kubeconfig"]]
    listed = os.environ.get("KUBECONFIG", "").split(os.pathsep)
    found = [path for path in dict.fromkeys(listed) if path]
    return found or [os.path.expanduser("~/.kube/config")]


def names(options: Mapping[str, str], kind: str) -> list[str]:
    """The names of all entries of one of KINDS, for completion; a file that cannot be read has none."""
    found: dict[str, None] = {}
    for path in paths(options):
        try:
            found |= dict.fromkeys(_parsed(path, _content(path))[kind])
        except Exception:  # noqa: BLE001, S112 - another command says what is wrong
            continue
    return [name for name in found if name]


def resolve(files: Iterable[tuple[str, bytes]], options: Mapping[str, str]) -> Entry:
    """The access that files (path, content) and options give, in JSON's types.

    Keys: server, ca, insecure, server_name, proxy, context, namespace, impersonation (headers) and notices (sentences);
    of credentials: cert and key, authorization, token_file, or exec or oidc, whose plugin must run.
    Reads the files that the chosen cluster and user name. KubeconfigError, OSError and UnicodeDecodeError.
    """
    merged = _merged(files)
    name = options.get("context") or merged["current-context"]
    context = _entry(merged, "contexts", name) or {}
    user = _entry(merged, "users", options.get("user") or context.get("user", "")) or {}
    named_cluster = _entry(merged, "clusters", options.get("cluster") or context.get("cluster", ""))
    cluster = named_cluster or {}
    _check_user(user)
    server = options.get("server") or cluster.get("server", "")
    if not server and named_cluster is None:
        missing = f"its context {name!r} names no cluster" if context else "it sets no current-context: give --context"
        raise NoClusterError(missing if merged["contexts"] else "it does not exist, or is empty")
    if not server:
        raise KubeconfigError(f"its cluster {context.get('cluster', '')!r} has no server: add one, or give --server")
    if cluster.get("proxy-url") and "://" not in cluster["proxy-url"]:
        raise KubeconfigError("the proxy-url of its cluster has no scheme: write it as http://HOST:PORT")
    access: Entry = {
        "server": (server if "//" in server else f"https://{server}"),
        "ca": _text(cluster, _AUTHORITY),
        "insecure": cluster.get("insecure-skip-tls-verify", False),
        "server_name": "" if options.get("server") else cluster.get("tls-server-name", ""),
        "proxy": cluster.get("proxy-url", ""),
        "context": name,
        "namespace": context.get("namespace", ""),
        "impersonation": _impersonation(user, options.get("as")),
        "notices": [],
    }
    certificate = {"cert": _text(user, _CERTIFICATE), "key": _text(user, _KEY)} if _has(user, _CERTIFICATE) else {}
    if access["server"].lower().startswith("https://"):
        if access["insecure"] and access["ca"]:
            raise KubeconfigError(f"its cluster has {_AUTHORITY} and insecure-skip-tls-verify: remove one")
        access |= certificate | _authorization(user, has_certificate=bool(certificate))
        if access.get("exec", {}).get("provideClusterInfo"):
            access["exec"]["cluster"] = _cluster_info(cluster, access)
    elif certificate or user.keys() & {"token", "tokenFile", "username", "exec", "auth-provider"}:
        access["notices"].append("without TLS the API server is sent no credentials: give its address as https://")
    check_headers([access.get("authorization", ""), *(value for _, value in access["impersonation"])])
    return access


def check_headers(values: Iterable[str]) -> None:
    """KubeconfigError for a value that no HTTP header can carry."""
    if any(c < " " or c == "\x7f" for value in values for c in value):
        raise KubeconfigError("a token or a user name in it has a control character, such as a line end: remove that")


# --- files


def _contents(options: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    for path in paths(options):
        try:
            yield path, _content(path)
        except FileNotFoundError:
            if options.get("kubeconfig"):  # a file of a list may be missing
                hint = ": --kubeconfig takes one file, KUBECONFIG a list" if os.pathsep in path else ""
                hint = ": write the home directory in place of ~" if path.startswith("~") else hint
                raise KubeconfigError(f"it does not exist{hint}") from None


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _merged(files: Iterable[tuple[str, bytes]]) -> Entry:
    """All files as one, in which the first file that has an entry counts."""
    merged: Entry = {"current-context": "", **{kind: {} for kind in KINDS}}
    for path, data in (several := list(files)):
        try:
            parsed = _parsed(path, data)
        except KubeconfigError as error:
            raise KubeconfigError(f"{path}: {error}" if len(several) > 1 else str(error)) from None
        for kind in KINDS:
            merged[kind] = parsed[kind] | merged[kind]
        merged["current-context"] = merged["current-context"] or parsed["current-context"]
    return merged


def _parsed(path: str, data: bytes) -> Entry:
    """The current context of a file, and for each of KINDS its entries by name; paths are made absolute."""
    whole = _typed(_loaded(data), _FILE, "its content")
    found = (whole.get("kind") or "Config", whole.get("apiVersion") or "v1")
    if found != ("Config", "v1"):
        is_, wanted = (" ".join(pair)[:_MAX_QUOTED_CHARS] for pair in (found, ("Config", "v1")))
        raise KubeconfigError(f"it is not a kubeconfig: its kind and apiVersion are {is_!r}, not {wanted!r}")
    parsed: Entry = {"current-context": whole.get("current-context", "")}
    directory = os.path.abspath(os.path.dirname(path))
    for kind in KINDS:
        parsed[kind] = {}
        for item in whole.get(kind, []):
            name, entry = item.get("name", ""), item.get(kind[:-1], {})
            if name in parsed[kind]:
                raise KubeconfigError(f"two of its {kind} have the name {name!r}: rename one")
            parsed[kind][name] = entry
            plugin = entry.get("exec", {})
            if os.sep in plugin.get("command", ""):  # else it is found on PATH
                plugin["command"] = os.path.join(directory, plugin["command"])
            entry |= {key: os.path.join(directory, entry[key]) for key in _PATHS if entry.get(key)}
    return parsed


def _loaded(data: bytes) -> object:
    """YAML's first document; {} if there is none."""
    import yaml  # noqa: PLC0415 - a waiting candidate does without

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML's own scanner takes minutes for nested brackets
    timestamp = "tag:yaml.org,2002:timestamp"  # a string to Go
    resolvers = {
        first: [resolver for resolver in found if resolver[0] != timestamp]
        for first, found in base.yaml_implicit_resolvers.items()
    }
    loader = type("Loader", (base,), {"yaml_implicit_resolvers": resolvers})
    depth, found = 0, None
    try:
        for event in yaml.parse(data, loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _MAX_DEPTH or isinstance(event, yaml.DocumentEndEvent):
                break
        if depth <= _MAX_DEPTH:  # libyaml composes by recursion, which crashes the process if it is too deep
            found = next(yaml.load_all(data, loader), None)
    except yaml.YAMLError as error:  # whose message may quote a secret
        mark = getattr(error, "problem_mark", None)
        raise KubeconfigError(f"it is not YAML{f': see line {mark.line + 1}' if mark else ''}") from None
    except (ValueError, OverflowError):
        raise KubeconfigError("it is not YAML: a number in it is invalid") from None
    if depth > _MAX_DEPTH:
        raise KubeconfigError("it is nested too deeply")
    return {} if found is None else found


def _typed(value: object, shape: Any, what: str) -> Any:  # noqa: ANN401
    """The fields of the value that the shape has, without nulls. KubeconfigError: ``what`` is of another type."""
    kind = type(shape) if isinstance(shape, (dict, list)) else str if shape is bytes else shape
    if not isinstance(value, kind):
        wanted = {dict: "a mapping", list: "a list", bool: "true or false"}.get(kind, "a string")
        raise KubeconfigError(f"{what} is not {wanted}")
    if isinstance(value, dict) and kind is dict:
        shapes = dict.fromkeys(value, shape[str]) if str in shape else shape
        return {str(key): _typed(value[key], shapes[key], str(key)) for key in shapes if value.get(key) is not None}
    if isinstance(value, list) and kind is list:
        null: object = {} if isinstance(shape[0], dict) else ""
        return [_typed(null if item is None else item, shape[0], f"an entry of {what}") for item in value]
    if isinstance(value, str) and shape is bytes:
        try:
            return base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
        except ValueError:
            raise KubeconfigError(f"{what} is not base64") from None
    return value


# --- entries


def _entry(merged: Entry, kind: str, name: str) -> Entry | None:
    """The entry of that name; None if the name is empty and no entry has it."""
    found: Entry | None = merged[kind].get(name)
    if found is None and name:
        there = ", ".join(map(repr, merged[kind])) or "none"
        raise KubeconfigError(f"it has no {kind[:-1]} {name!r}: its {kind} are {there[:_MAX_QUOTED_CHARS]}")
    return found


def _has(entry: Entry, key: str) -> bool:
    return bool(entry.get(key) or entry.get(f"{key}-data"))


def _text(entry: Entry, key: str) -> str:
    """The text of KEY-data or of the file in KEY; "" for neither."""
    if entry.get(key) and entry.get(f"{key}-data"):
        raise KubeconfigError(f"it has {key} and {key}-data: remove one")
    data: bytes = _content(entry[key]) if entry.get(key) else entry.get(f"{key}-data", b"")
    return data.decode()


def _check_user(user: Entry) -> None:
    """KubeconfigError for what clientcmd refuses too."""
    plugin, password = user.get("exec"), user.get("username") or user.get("password")
    if password and (user.get("token") or user.get("tokenFile")):
        raise KubeconfigError("its user has a token and a password: remove one")
    if _has(user, _CERTIFICATE) and not _has(user, _KEY):
        raise KubeconfigError(f"its user has a {_CERTIFICATE}, but no {_KEY}: add it")
    if "auth-provider" in user and plugin is not None:
        raise KubeconfigError("its user has an auth-provider and exec: remove one")
    if "auth-provider" in user and (name := user["auth-provider"].get("name", "")) != "oidc":
        raise KubeconfigError(f"its auth-provider is {name!r}: Kubernetes supports only 'oidc', or an exec plugin")
    if plugin is None:
        return
    version, mode = plugin.get("apiVersion", ""), plugin.get("interactiveMode", "")
    if version not in {f"{EXEC_API}/v1", f"{EXEC_API}/v1beta1"}:
        raise KubeconfigError(f"the apiVersion of its exec plugin is {version!r}: write {EXEC_API}/v1 or v1beta1")
    if not plugin.get("command"):
        raise KubeconfigError("its exec plugin has no command: add one")
    if not all(variable.get("name") for variable in plugin.get("env", [])):
        raise KubeconfigError("the env of its exec plugin has a variable without a name: name it")
    if mode not in {"Never", "IfAvailable", "Always"} and (mode or version.endswith("v1")):
        raise KubeconfigError(f"the interactiveMode of its exec plugin is {mode!r}: write Never, IfAvailable or Always")


def _impersonation(user: Entry, wanted: str | None) -> list[list[str]]:
    """The headers that name the user to act as: ``wanted``, of --as, before the kubeconfig's."""
    name = wanted or user.get("as", "")
    more = [["Impersonate-Uid", user["as-uid"]]] if user.get("as-uid") else []
    more += [["Impersonate-Group", group] for group in user.get("as-groups", [])]
    for key, values in user.get("as-user-extra", {}).items():
        header = "Impersonate-Extra-" + urllib.parse.quote(key, safe="!#$&'*+^`|")
        more += [[header, value] for value in values]
    if more and not name:
        raise KubeconfigError(
            "its user has as-uid, as-groups or as-user-extra without as: add as, the user to impersonate"
        )
    return [["Impersonate-User", name], *more] if name else []


def _authorization(user: Entry, *, has_certificate: bool) -> Entry:
    """A token or a password, else the plugin that gives one; exec only if there is no certificate."""
    token, file = user.get("token", ""), user.get("tokenFile", "")
    if file and not token:
        token = _content(file).decode().strip()
        if not token:
            raise KubeconfigError(f"its tokenFile {file} is empty")
    if token:
        return {"authorization": f"Bearer {token}", "token_file": file}
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}"
        return {"authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
    if "auth-provider" in user:
        return {"oidc": user["auth-provider"].get("config", {})}
    return {"exec": user["exec"]} if "exec" in user and not has_certificate else {}


def _cluster_info(cluster: Entry, access: Entry) -> Entry:
    """The Cluster of an ExecCredential's spec, for a plugin with provideClusterInfo."""
    configs = [
        item.get("extension") for item in cluster.get("extensions", []) if item.get("name") == f"{EXEC_API}/exec"
    ]
    info = {
        "server": access["server"],
        "tls-server-name": access["server_name"],
        "insecure-skip-tls-verify": access["insecure"],
        f"{_AUTHORITY}-data": base64.b64encode(access["ca"].encode()).decode(),
        "proxy-url": access["proxy"],
        "disable-compression": cluster.get("disable-compression"),
        "config": next(iter(configs), None),
    }
    return {key: value for key, value in info.items() if value}
