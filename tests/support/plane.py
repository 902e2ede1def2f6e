"""What tests ask of any cluster, and the cluster that $KLEADER_TEST_KUBECONFIG names."""

from __future__ import annotations

import contextlib
import itertools
import json
import secrets
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

from tests.support.api import Api, ApiError, Object
from tests.support.objects import pod
from tests.support.processes import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

RBAC = "rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
LEASE_RULES: list[Object] = [  # what a candidate needs: no list, no delete
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "watch", "create", "update", "patch"],
    },
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
]


class NeedsOwnPlane(Exception):  # noqa: N818 - it is a demand, not a failure
    """The test inspects or stops the API server, which the cluster of $KLEADER_TEST_KUBECONFIG is not there for."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} needs the tests' own control plane: unset KLEADER_TEST_KUBECONFIG")


class Plane(ABC):
    """A cluster to test against. `api` calls it as an administrator."""

    api: Api
    url: str
    ca_file: Path
    dir: Path

    def __init__(self) -> None:
        self._serial = itertools.count()

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def collect_garbage(self) -> None:
        """See to it that objects go once their owners have gone."""

    @abstractmethod
    def new_user(self) -> str:
        """Return a user that nobody else has; it may do LEASE_RULES in every namespace."""

    @abstractmethod
    def cluster(self) -> Object:
        """Return a kubeconfig's `cluster` entry for this cluster."""

    @abstractmethod
    def credentials(self, user: str) -> Object:
        """Return a kubeconfig's `user` entry for `user`."""

    def kubeconfig(
        self, user: str = "admin", namespace: str = "default", *, server: str | None = None, **credentials: object
    ) -> Path:
        """Write a kubeconfig and return its path.

        `server` stands in for the cluster's address (a proxy's); `credentials`, where given, for the user's own entry,
        with _ for - (`tokenFile=path`, `token="wrong"`, `client_certificate=…`). Rewrite the file at will: it is JSON.
        """
        entry = {key.replace("_", "-"): str(value) for key, value in credentials.items()} or self.credentials(user)
        cluster = self.cluster()
        if server is not None:
            cluster = {**cluster, "server": server, "tls-server-name": urlsplit(self.url).hostname}
        context = {"cluster": "plane", "user": user, "namespace": namespace}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "plane",
            "clusters": [{"name": "plane", "cluster": cluster}],
            "users": [{"name": user, "user": entry}],
            "contexts": [{"name": "plane", "context": context}],
        }
        file = self.dir / f"{user}-{next(self._serial)}.kubeconfig"
        file.write_text(json.dumps(config, indent=1))
        file.chmod(0o600)
        return file

    def new_namespace(self, prefix: str = "t") -> str:
        """Create a namespace of a name not used before, and return the name."""
        name = f"{prefix}-{secrets.token_hex(5)}"
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return name

    def new_pod(self, namespace: str, name: str, node: str = "") -> Object:
        """Create a Pod that nobody runs, on `node` or on none, and return it.

        On a node it is deleted as a running one is: gracefully (nobody ends that), or with ?gracePeriodSeconds=0.
        """
        meta = {"namespace": namespace, "name": "default"}
        with contextlib.suppress(ApiError):  # there already: a real cluster's own controller made it, or another call
            self.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
        return self.api.create(pod(namespace, name, node))

    def grant(self, user: str, namespace: str, rules: Sequence[Object]) -> None:
        """Create a Role of these rules and bind `user` to it; return once the server acts on it."""
        name = f"{user}-{secrets.token_hex(3)}"
        meta = {"namespace": namespace, "name": name}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        self.api.create({"apiVersion": RBAC, "kind": "Role", "metadata": meta, "rules": list(rules)})
        binding = {"kind": "RoleBinding", "metadata": meta, "subjects": [subject], "roleRef": reference}
        self.api.create({"apiVersion": RBAC, **binding})
        self.wait_allowed(namespace, rules[-1], user=user)

    def wait_allowed(self, namespace: str, rule: Object, *, user: str = "", groups: Sequence[str] = ()) -> None:
        """Return once the authorizer, whose own watch lags by milliseconds, allows the last of what `rule` names."""
        attributes = {
            "namespace": namespace,
            "group": rule["apiGroups"][-1],
            "resource": rule["resources"][-1].partition("/")[0],
            "subresource": rule["resources"][-1].partition("/")[2],
            "verb": rule["verbs"][-1],
            "name": rule.get("resourceNames", [""])[-1],
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": {"user": user, "groups": list(groups), "resourceAttributes": attributes},
        }
        deadline = time.monotonic() + PATIENCE
        while not self.api.call("POST", REVIEWS, review)["status"]["allowed"]:
            assert time.monotonic() < deadline, f"{user or groups}: {rule} was granted and is not allowed"


class GivenPlane(Plane):
    """The cluster that a kubeconfig's current context names. Every user is that context's own user."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__()
        self.source = kubeconfig

    def start(self) -> None:
        """Read the kubeconfig and make sure that the cluster answers."""
        import yaml  # noqa: PLC0415 - only here; both come with kleader itself
        from kubernetes import client, config  # noqa: PLC0415

        self.dir = Path(tempfile.mkdtemp(prefix="kleader-plane-"))
        given = yaml.safe_load(self.source.read_text())
        parts = {kind: {one["name"]: one[kind] for one in given[f"{kind}s"]} for kind in ("cluster", "user", "context")}
        context = parts["context"][given["current-context"]]
        self._cluster, self._user = parts["cluster"][context["cluster"]], parts["user"][context["user"]]
        loaded = client.Configuration()
        config.load_kube_config(str(self.source), client_configuration=loaded)
        self.url = loaded.host
        self.ca_file = Path(loaded.ssl_ca_cert or "")
        key = loaded.get_api_key_with_prefix("BearerToken")
        self.api = Api(
            self.url,
            loaded.ssl_ca_cert,
            certificate=(loaded.cert_file, loaded.key_file) if loaded.cert_file else None,
            headers={"Authorization": key} if key else None,
        )
        status, text = self.api.request("GET", "/readyz")
        if status != 200:
            raise ApiError("GET", "/readyz", status, text)

    def stop(self) -> None:
        """Leave the cluster as it is: it is not ours."""
        shutil.rmtree(self.dir, ignore_errors=True)

    def collect_garbage(self) -> None:
        """Nothing to do: a cluster has a controller manager."""

    def new_user(self) -> str:
        return "handed_over"

    def cluster(self) -> Object:
        return dict(self._cluster)

    def credentials(self, user: str) -> Object:  # noqa: ARG002 - there is but one
        return dict(self._user)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NeedsOwnPlane(name)
