"""The objects that run a command in a cluster, as the plan of its ``run`` has it."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from kleader.link.plan import FOR_LIFE
from kleader.locks import permissions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kleader.link.plan import Plan
    from kleader.locks.permissions import Permission

Object = dict[str, Any]
_NAME = "app.kubernetes.io/name"
_PORT = "kleader"
_RBAC = "rbac.authorization.k8s.io"
_NOBODY = 65532  # a user that no image's files belong to by accident; distroless images call it nonroot
_PRECEDENCE = 200  # kube-system's own elections have it too; whatever a service account asks for otherwise has 9000

_LONGEST_LABEL = 63 - len("-leader")  # characters

_SURROUNDINGS = (
    "POD_NAME",
    "POD_NAMESPACE",
    "POD_UID",
)  # what the downward API tells; leader-for-life and --pod-label mind the last


def objects(plan: Plan, options: Sequence[str], image: str, replicas: int) -> list[Object]:
    """In the order in which they need each other. ``options`` are those of the Pods' ``run``."""
    subject = {"kind": "ServiceAccount", "name": plan.name, "namespace": plan.namespace}
    role = {"apiGroup": _RBAC, "kind": "Role", "name": plan.name}
    objects = [
        _object("v1", "ServiceAccount", plan),
        _object(f"{_RBAC}/v1", "Role", plan, rules=permissions.rules(_needed(plan))),
        _object(f"{_RBAC}/v1", "RoleBinding", plan, roleRef=role, subjects=[subject]),
        _object("apps/v1", "Deployment", plan, spec=_deployment(plan, options, image, replicas)),
        # A drain takes one Pod after the other, and waits for the first one's successor.
        _object("policy/v1", "PodDisruptionBudget", plan, spec={"maxUnavailable": 1, "selector": _selector(plan)}),
    ]
    return [*objects, _service(plan)] if plan.pod_label else objects


def flow_schema(plan: Plan) -> Object:
    """Puts the lock's requests on the level that is there for elections, which kube-system alone has by default."""
    verbs: dict[tuple[str, str], list[str]] = {}
    for each in _needed(plan):
        if each.resource != "events" and each.verb != "patch":
            verbs.setdefault((each.group, each.resource), []).append(each.verb)
    rules = [
        {"apiGroups": [group], "namespaces": [plan.namespace], "resources": [resource], "verbs": allowed}
        for (group, resource), allowed in verbs.items()
    ]
    account = {"name": plan.name, "namespace": plan.namespace}
    subject = {"kind": "ServiceAccount", "serviceAccount": account}
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"labels": {_NAME: plan.name}, "name": f"kleader-{plan.namespace}-{plan.name}"},
        "spec": {
            "distinguisherMethod": {"type": "ByUser"},
            "matchingPrecedence": _PRECEDENCE,
            "priorityLevelConfiguration": {"name": "leader-election"},
            "rules": [{"resourceRules": rules, "subjects": [subject]}],
        },
    }


def grace_period(plan: Plan) -> int:
    """Seconds that a Pod needs to end: a command that takes all of its time, its death, and the lock's release."""
    return math.ceil(plan.stop_timeout + plan.kill + plan.request_timeout)


def _needed(plan: Plan) -> tuple[Permission, ...]:
    candidate = "" if plan.coordinated else None  # each Pod's LeaseCandidate is named after its identity
    label = permissions.label() if plan.pod_label else ()
    return (*permissions.needed(plan.lock, plan.name, candidate=candidate), *label, *permissions.events())


def _object(version: str, kind: str, plan: Plan, **more: Any) -> Object:  # noqa: ANN401 - JSON
    metadata = {"labels": {_NAME: plan.name}, "name": plan.name, "namespace": plan.namespace}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def _service(plan: Plan) -> Object:
    """Selects the leader alone. Without a cluster address, for which it would have to know a port."""
    key, leader, _ = plan.pod_label
    service = _object("v1", "Service", plan, spec={"clusterIP": "None", "selector": {_NAME: plan.name, key: leader}})
    name = re.sub(r"^(?=[0-9])", "l-", plan.name.replace(".", "-"))[:_LONGEST_LABEL]  # begins with a letter
    service["metadata"]["name"] = f"{name.rstrip('-')}-leader"
    return service


def _selector(plan: Plan) -> Object:
    return {"matchLabels": {_NAME: plan.name}}


def _deployment(plan: Plan, options: Sequence[str], image: str, replicas: int) -> Object:
    elsewhere = {"labelSelector": _selector(plan), "topologyKey": "kubernetes.io/hostname"}
    spread = [{"podAffinityTerm": elsewhere, "weight": 100}]
    return {
        # The new candidate is there, and its first request was answered or has failed, before an old one goes.
        "minReadySeconds": math.ceil(plan.request_timeout),
        "replicas": replicas,
        "selector": _selector(plan),
        "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}, "type": "RollingUpdate"},
        "template": {
            "metadata": {"labels": {_NAME: plan.name}},
            "spec": {
                "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": spread}},
                "containers": [_container(plan, options, image)],
                "securityContext": {
                    "runAsGroup": _NOBODY,
                    "runAsNonRoot": True,
                    "runAsUser": _NOBODY,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "serviceAccountName": plan.name,
                "terminationGracePeriodSeconds": grace_period(plan),
                "volumes": [{"emptyDir": {}, "name": "tmp"}],
            },
        },
    }


def _container(plan: Plan, options: Sequence[str], image: str) -> Object:
    found = {
        "args": [_unexpanded(each) for each in plan.command],
        "command": [_unexpanded(each) for each in ("kleader", "run", *options, "--")],
        "env": [
            _downward(variable) for variable in _SURROUNDINGS[: 3 if plan.lock == FOR_LIFE or plan.pod_label else 2]
        ],
        "image": image,
        "name": "main",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"mountPath": "/tmp", "name": "tmp"}],  # noqa: S108 - the container's own
        **(_probed(plan) if plan.http else {}),
    }
    return dict(sorted(found.items()))


def _probed(plan: Plan) -> Object:
    """What the kubelet asks. A Pod is ready once its candidate has read the lock: it can stand by, or leads."""
    return {
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": _PORT}},
        "ports": [{"containerPort": int(plan.http.rpartition(":")[2]), "name": _PORT}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": _PORT}},
    }


def _downward(variable: str) -> Object:
    field = f"metadata.{variable.removeprefix('POD_').lower()}"
    return {"name": variable, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": field}}}


def _unexpanded(word: str) -> str:
    """As the kubelet has to be given it: it replaces ``$(VARIABLE)``, and ``$$`` by ``$``."""
    return re.sub(r"\$(?=[$(])", "$$", word)
