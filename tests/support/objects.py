"""Objects that locks are made of, and that own them, as plain JSON."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.api import Object

LEADER = "control-plane.alpha.kubernetes.io/leader"  # the annotation that holds the record of a ConfigMap or Endpoints


def record(holder: str, duration: int = 15, **fields: object) -> str:
    """Return the record of an annotation as client-go writes it, renewed now; `fields` adds some or replaces them."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    base = {"holderIdentity": holder, "leaseDurationSeconds": duration, "acquireTime": now, "renewTime": now}
    return json.dumps({**base, "leaderTransitions": 0, **fields}, separators=(",", ":"))


def read_record(thing: Object) -> Object:
    """Return the record in the annotation of an object; KeyError where it has none."""
    found: Object = json.loads(thing["metadata"]["annotations"][LEADER])
    return found


def config_map(
    namespace: str, name: str, holding: str | None = None, *, owners: Sequence[Object] = (), **fields: object
) -> Object:
    """Return a ConfigMap; `holding`: the annotation's text; `owners`: objects that own it; `fields`: data, ...."""
    return {**_core("ConfigMap", namespace, name, holding, owners), **fields}


def endpoints(
    namespace: str, name: str, holding: str | None = None, *, owners: Sequence[Object] = (), **fields: object
) -> Object:
    """Return Endpoints; as `config_map`. `fields`: subsets, ...."""
    return {**_core("Endpoints", namespace, name, holding, owners), **fields}


def service(namespace: str, name: str, port: int = 80) -> Object:
    """Return a Service without a selector: its Endpoints are what somebody writes."""
    return {**_core("Service", namespace, name), "spec": {"ports": [{"port": port}]}}


def pod(namespace: str, name: str, node: str = "") -> Object:
    """Return a Pod of one container, `main`; create it with `plane.new_pod`."""
    spec: Object = {"containers": [{"name": "main", "image": "none"}], "automountServiceAccountToken": False}
    if node:
        spec["nodeName"] = node
    return {**_core("Pod", namespace, name), "spec": spec}


def pod_status(phase: str, reason: str = "", *, ended: bool = True, disruption: str = "") -> Object:
    """Return a patch for a Pod's /status: its phase, why, and whether its one container has terminated or runs.

    `disruption`: the reason of its condition DisruptionTarget.
    """
    state: Object = {"terminated": {"exitCode": 137}} if ended else {"running": {}}
    main = {"name": "main", "image": "none", "imageID": "", "ready": not ended, "restartCount": 0, "state": state}
    target: Object = {"type": "DisruptionTarget", "status": "True", "reason": disruption}
    conditions = {"conditions": [target]} if disruption else {}
    return {"status": {"phase": phase, "reason": reason, "containerStatuses": [main], **conditions}}


def lease_candidate(
    namespace: str, name: str, lease: str, *, binary: str = "1.36.0", emulation: str = "1.36.0", **spec: object
) -> Object:
    """Return a LeaseCandidate (KEP-4355), renewed now, that wants `lease`."""
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + ".000000Z"
    base = {"leaseName": lease, "strategy": "OldestEmulationVersion", "renewTime": now}
    return {
        "apiVersion": "coordination.k8s.io/v1beta1",
        "kind": "LeaseCandidate",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {**base, "binaryVersion": binary, "emulationVersion": emulation, **spec},
    }


def owned_by(owner: Object) -> Object:
    """Return the ownerReference that names this very object."""
    names = {key: owner["metadata"][key] for key in ("name", "uid")}
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], **names}


def _core(kind: str, namespace: str, name: str, holding: str | None = None, owners: Sequence[Object] = ()) -> Object:
    meta: Object = {"namespace": namespace, "name": name}
    if holding is not None:
        meta["annotations"] = {LEADER: holding}
    if owners:
        meta["ownerReferences"] = [owned_by(owner) for owner in owners]
    return {"apiVersion": "v1", "kind": kind, "metadata": meta}
