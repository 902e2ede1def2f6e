"""The Kubernetes objects that run a command by its plan."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from kleader.ipc.plan import FOR_LIFE
from kleader.locks import rbac

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kleader.ipc.plan import Plan
    from kleader.locks.rbac import Permission

Object = dict[str, Any]
_NAME, _INSTANCE = "app.kubernetes.io/name", "app.kubernetes.io/instance"
_MANAGED_BY = "app.kubernetes.io/managed-by"
_PORT = "kleader"
_RBAC = "rbac.authorization.k8s.io"
NOBODY = 65532  # no image's files belong to this user by accident; distroless images call it nonroot
_PRECEDENCE = 200  # that of kube-system's elections; other requests of service accounts have 9000

_MAX_SERVICE_NAME = 63 - len("-leader")  # characters
_MIN_READY_SECONDS = 5  # a candidate starts, reads the lock, waits for a second, and writes its entry
_PROBE_TIMEOUT = 5  # seconds: an overloaded node answers late, and restarts would load it more
_EVICTION_POLICY_SINCE = 26  # Kubernetes 1.26; an older API server refuses the field
_TMP_SIZE = "256Mi"  # a Pod that writes more is evicted before it fills the node's disk

_TREE_SIZE = "256Mi"  # kleader's, and a copy of it that is being replaced
_INJECTED = "/kleader"  # in its own image, and in the container
_COPY = "/copy"
_CONFINED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}

_DOWNWARD = ("POD_NAME", "POD_NAMESPACE", "POD_UID")  # the last for leader-for-life and --pod-label


class Workload(NamedTuple):
    """The options of the Pods."""

    image: str
    replicas: int
    cpu: str
    memory: str
    run_as_user: int | None  # None: the image's own user
    writable_root: bool
    kube_version: int | None  # the minor number of the cluster's version; None: it knows all that is printed
    inject: str | None  # the image of kleader, where the container's has none
    image_volume: bool


def objects(plan: Plan, arguments: Sequence[str], workload: Workload) -> list[Object]:
    """The objects, each after those that it refers to. ``arguments``: the options of ``run`` in the Pods."""
    subject = {"kind": "ServiceAccount", "name": plan.name, "namespace": plan.namespace}
    role = {"apiGroup": _RBAC, "kind": "Role", "name": plan.name}
    objects = [
        _object("v1", "ServiceAccount", plan, automountServiceAccountToken=False),  # its Pods mount it themselves
        _object(f"{_RBAC}/v1", "Role", plan, rules=rbac.role_rules(_needed(plan))),
        _object(f"{_RBAC}/v1", "RoleBinding", plan, roleRef=role, subjects=[subject]),
        _object("apps/v1", "Deployment", plan, spec=_deployment(plan, arguments, workload)),
        _object("policy/v1", "PodDisruptionBudget", plan, spec=_disruption(plan, workload.kube_version)),
    ]
    return [*objects, _service(plan)] if plan.pod_label else objects


def flow_schema(plan: Plan) -> Object:
    """Gives the lock's requests the priority level for elections, which by default only kube-system's have."""
    verbs: dict[tuple[str, str], dict[str, None]] = {}
    for needed in _needed(plan):
        if needed.resource not in {"events", "replicasets"} and needed.verb != "patch":
            verbs.setdefault((needed.group, needed.resource), {})[needed.verb] = None
    rules = [
        {"apiGroups": [group], "namespaces": [plan.namespace], "resources": [resource], "verbs": [*allowed]}
        for (group, resource), allowed in verbs.items()
    ]
    account = {"name": plan.name, "namespace": plan.namespace}
    subject = {"kind": "ServiceAccount", "serviceAccount": account}
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"labels": _labels(plan), "name": f"kleader-{plan.namespace}-{plan.name}"},
        "spec": {
            "distinguisherMethod": {"type": "ByUser"},
            "matchingPrecedence": _PRECEDENCE,
            "priorityLevelConfiguration": {"name": "leader-election"},
            "rules": [{"resourceRules": rules, "subjects": [subject]}],
        },
    }


def grace_period(plan: Plan) -> int:
    """Seconds that a Pod needs to end: --stop-timeout, the kill, and the release of the lock."""
    return math.ceil(plan.stop_timeout + plan.timing.kill + plan.request_timeout)


def _needed(plan: Plan) -> tuple[Permission, ...]:
    candidate = "" if plan.coordinated else None  # the LeaseCandidate of each Pod has the name of its identity
    label = rbac.pod_label_permissions() if plan.pod_label else ()
    registration = rbac.registration_permissions(plan.name) if plan.registers else ()
    rollout = rbac.rollout_permissions() if plan.recommends else ()
    lock = rbac.lock_permissions(plan.lock, plan.name, candidate=candidate)
    return (*lock, *registration, *rollout, *label, *rbac.event_permissions())


def _object(version: str, kind: str, plan: Plan, **more: Any) -> Object:  # noqa: ANN401 - JSON
    metadata = {"labels": _labels(plan), "name": plan.name, "namespace": plan.namespace}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def _service(plan: Plan) -> Object:
    """A Service that selects the leader; headless, because the command's port is unknown."""
    key, leader, _ = plan.pod_label
    service = _object("v1", "Service", plan, spec={"clusterIP": "None", "selector": {**_selected(plan), key: leader}})
    name = re.sub(r"^(?=[0-9])", "l-", plan.name.replace(".", "-"))[:_MAX_SERVICE_NAME]  # must begin with a letter
    service["metadata"]["name"] = f"{name.rstrip('-')}-leader"
    return service


def _selected(plan: Plan) -> dict[str, str]:
    """The labels of the selectors. A Deployment's selector is immutable, so these are few."""
    return {_INSTANCE: plan.name, _NAME: plan.name}


def _labels(plan: Plan) -> dict[str, str]:
    return {**_selected(plan), _MANAGED_BY: "kleader"}


def _selector(plan: Plan) -> Object:
    return {"matchLabels": _selected(plan)}


def _disruption(plan: Plan, kube_version: int | None) -> Object:
    """A drain evicts one Pod at a time, and waits for its replacement.

    A Pod that is not ready may always be evicted: Pods that cannot start or cannot reach the API block no drain.
    """
    spec = {"maxUnavailable": 1, "selector": _selector(plan)}
    if kube_version is None or kube_version >= _EVICTION_POLICY_SINCE:
        spec["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
    return spec


def _deployment(plan: Plan, arguments: Sequence[str], workload: Workload) -> Object:
    elsewhere = {"labelSelector": _selector(plan), "topologyKey": "kubernetes.io/hostname"}
    spread = [{"podAffinityTerm": elsewhere, "weight": 100}]
    zones = {
        "labelSelector": _selector(plan),
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
    }
    return {
        # A new candidate is in the list, or its first request has failed, before an old one ends.
        "minReadySeconds": max(_MIN_READY_SECONDS, math.ceil(plan.request_timeout)),
        "replicas": workload.replicas,
        "selector": _selector(plan),
        "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}, "type": "RollingUpdate"},
        "template": {
            "metadata": {"labels": _labels(plan)},
            "spec": {
                "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": spread}},
                "automountServiceAccountToken": True,
                "containers": [_container(plan, arguments, workload)],
                "enableServiceLinks": False,
                **({"initContainers": [_copier(workload)]} if workload.inject and not workload.image_volume else {}),
                "securityContext": {**_user(workload.run_as_user), "seccompProfile": {"type": "RuntimeDefault"}},
                "serviceAccountName": plan.name,
                "terminationGracePeriodSeconds": grace_period(plan),
                "topologySpreadConstraints": [zones],
                "volumes": [*_volumes(workload)],
            },
        },
    }


def _user(number: int | None) -> Object:
    """The user of the processes. Whether the image's own user is root is unknown here."""
    if number is None:
        return {}
    return {"runAsGroup": number, "runAsNonRoot": number != 0, "runAsUser": number}


def _volumes(workload: Workload) -> Iterator[Object]:
    yield {"emptyDir": {"sizeLimit": _TMP_SIZE}, "name": "tmp"}
    if workload.inject:
        image = {"image": {"reference": workload.inject}}
        yield {**(image if workload.image_volume else {"emptyDir": {"sizeLimit": _TREE_SIZE}}), "name": "kleader"}


def _injected(workload: Workload) -> Object:
    part = {"subPath": "kleader"} if workload.image_volume else {}
    return {"mountPath": _INJECTED, "name": "kleader", "readOnly": True, **part}


def _copier(workload: Workload) -> Object:
    """Copies kleader to where the container finds it."""
    return {
        "command": [f"{_INJECTED}/bin/kleader", "copy-to", _COPY],
        "image": workload.inject,
        "name": "kleader",
        "resources": {"requests": {"cpu": workload.cpu, "memory": workload.memory}},
        "securityContext": _CONFINED,
        "volumeMounts": [{"mountPath": _COPY, "name": "kleader"}],
    }


def _container(plan: Plan, arguments: Sequence[str], workload: Workload) -> Object:
    injected = [_injected(workload)] if workload.inject else []
    program = f"{_INJECTED}/bin/kleader" if workload.inject else "kleader"
    found = {
        "args": [_escaped(word) for word in plan.command],
        "command": [_escaped(word) for word in (program, "run", *arguments, "--")],
        "env": [_downward(variable) for variable in _DOWNWARD[: 3 if plan.lock == FOR_LIFE or plan.pod_label else 2]],
        "image": workload.image,
        "name": "main",
        "resources": {"requests": {"cpu": workload.cpu, "memory": workload.memory}},
        "securityContext": {**_CONFINED, "readOnlyRootFilesystem": not workload.writable_root},
        "volumeMounts": [{"mountPath": "/tmp", "name": "tmp"}, *injected],  # noqa: S108 - in the container
        **(_probed(plan) if plan.http else {}),
    }
    return dict(sorted(found.items()))


def _probed(plan: Plan) -> Object:
    """The probes. A Pod is ready once its candidate has read the lock."""
    return {
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": _PORT}, "timeoutSeconds": _PROBE_TIMEOUT},
        "ports": [{"containerPort": int(plan.http.rpartition(":")[2]), "name": _PORT}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": _PORT}, "timeoutSeconds": _PROBE_TIMEOUT},
    }


def _downward(variable: str) -> Object:
    field = f"metadata.{variable.removeprefix('POD_').lower()}"
    return {"name": variable, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": field}}}


def _escaped(word: str) -> str:
    """The word with ``$`` escaped, because the kubelet replaces ``$(VARIABLE)``, and ``$$`` by ``$``."""
    return re.sub(r"\$(?=[$(])", "$$", word)
