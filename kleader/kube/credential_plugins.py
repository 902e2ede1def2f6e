"""The process that reads kubeconfigs and runs their exec plugin or asks their OIDC provider, and ends.

What it imports would stay in a waiting candidate's memory for weeks. It prints one JSON object: an access (see
kleader.kube.kubeconfig), or ``{"error": sentence, "no_cluster": bool}``.
"""

from __future__ import annotations

import json
import os
import re
import signal
from typing import Any

from kleader import system
from kleader.election.record import SECOND, parse_time
from kleader.kube import kubeconfig
from kleader.kube.kubeconfig import KubeconfigError

_MAX_ERROR_LENGTH = 400


def main(options: dict[str, str]) -> None:
    """Print the access for the options. TERM ends this process and a plugin that hangs; so does the elector's death."""
    os.setsid()
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
    system.die_with_parent(signal.SIGTERM)
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a library may print
    try:
        access = kubeconfig.read(options)
        if "exec" in access:
            access |= run_exec_plugin(access.pop("exec"))
        elif "oidc" in access:
            access |= ask_oidc(access.pop("oidc"))
        kubeconfig.check_headers([access.get("authorization", "")])
    except KubeconfigError as error:
        access = {"error": str(error), "no_cluster": isinstance(error, kubeconfig.NoClusterError)}
    json.dump(access, answer)
    answer.close()


def run_exec_plugin(plugin: dict[str, Any]) -> dict[str, Any]:
    """The credentials that an exec plugin prints (client.authentication.k8s.io/v1 and v1beta1). KubeconfigError.

    The ``kubernetes`` package tells a plugin on a terminal that it may ask there, ignores interactiveMode and
    installHint, changes the directory, and takes a fifth of a second to import.
    """
    import subprocess  # noqa: PLC0415 - only for this

    name = f"its exec plugin {plugin['command']}"
    if plugin.get("interactiveMode") == "Always":
        raise KubeconfigError(
            f"{name} has interactiveMode Always, but kleader gives it no terminal: use other credentials"
        )
    spec = {"interactive": False, **({"cluster": plugin["cluster"]} if "cluster" in plugin else {})}
    information = {"kind": "ExecCredential", "apiVersion": plugin["apiVersion"], "spec": spec}
    variables = {variable["name"]: variable.get("value", "") for variable in plugin.get("env", [])}
    try:
        done = subprocess.run(
            [plugin["command"], *plugin.get("args", [])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if os.isatty(2) else subprocess.PIPE,
            env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(information)},
            check=False,
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL in the command
        why = getattr(error, "strerror", None) or str(error)
        raise KubeconfigError(_line(f"{name} cannot be started: {why}; {plugin.get('installHint', '')}")) from None
    if done.returncode:
        stderr = (done.stderr or b"").decode(errors="replace")
        raise KubeconfigError(_line(f"{name} ended with status {done.returncode}; {stderr}"))
    try:
        answer = json.loads(done.stdout)
        kind, version, status = answer["kind"], answer["apiVersion"], answer["status"]
        token, cert, key = (status.get(key) or "" for key in ("token", "clientCertificateData", "clientKeyData"))
        expires = status.get("expirationTimestamp")
        found = {"authorization": token and "Bearer " + token, "cert": cert, "key": key}
        found["expires"] = parse_time(expires) / SECOND if expires else None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise KubeconfigError(f"{name} did not print an ExecCredential with a status: run it by hand") from None
    if (kind, version) != ("ExecCredential", plugin["apiVersion"]) or not (token or cert) or bool(cert) != bool(key):
        raise KubeconfigError(
            f"{name} did not print a {plugin['apiVersion']} ExecCredential with a token or certificate: run it by hand"
        )
    return found


def ask_oidc(config: dict[str, str]) -> dict[str, Any]:
    """The token of an OIDC provider, refreshed by the ``kubernetes`` package if it has expired. KubeconfigError."""
    from certifi import where  # noqa: PLC0415 - a dependency of kubernetes
    from kubernetes.client import Configuration  # noqa: PLC0415 - 40 MB
    from kubernetes.config import load_kube_config_from_dict  # noqa: PLC0415

    # Without an authority the package would trust any certificate.
    provider = {"name": "oidc", "config": {"idp-certificate-authority": where(), **config}}
    whole = {
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {}}],
        "users": [{"name": "x", "user": {"auth-provider": provider}}],
    }
    found = Configuration()
    try:
        load_kube_config_from_dict(whole, context="x", client_configuration=found)
    except Exception as error:  # noqa: BLE001 - the package and its dependencies raise anything
        raise KubeconfigError(_line(f"its OIDC provider gave no token: {str(error) or type(error).__name__}")) from None
    keys = found.api_key or {}
    token = keys.get("BearerToken") or keys.get("authorization")  # "Bearer TOKEN"; its name changed with 37
    if not token:
        raise KubeconfigError("its OIDC provider gave no token: its id-token is missing or invalid")
    return {"authorization": token}


def _line(text: str) -> str:
    """One bounded line without {...}: a library may quote the kubeconfig, which has credentials."""
    line = re.sub(r"\{.*\}", "", " ".join(text.split())).rstrip("; ")
    return line if len(line) <= _MAX_ERROR_LENGTH else f"{line[:_MAX_ERROR_LENGTH]}…"
