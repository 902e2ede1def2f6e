"""The client of the API: what a real API server's answers mean, for every kind of object."""

from __future__ import annotations

import asyncio
import itertools
import re
from typing import TYPE_CHECKING, Any

import pytest

from kleader.election.events import Failure, Kind
from kleader.kube.errors import LockError
from tests.support.api import path
from tests.support.api_client import api_client
from tests.support.processes import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.api import Object
    from tests.support.plane import Plane

KINDS = {"configmaps": "ConfigMap", "endpoints": "Endpoints"}


def thing(plural: str, name: str = "x", **more: object) -> Object:
    return {"apiVersion": "v1", "kind": KINDS[plural], "metadata": {"name": name}, **more}


def call(kubeconfig: Path, method: str, target: str, body: Object | None = None) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        async with api_client(kubeconfig) as api:
            return await api.call(method, target, body, 10)

    return asyncio.run(ask())


def failure(kubeconfig: Path, method: str, target: str, body: Object | None = None) -> Failure:
    with pytest.raises(LockError) as caught:
        call(kubeconfig, method, target, body)
    return caught.value.failure


@pytest.mark.parametrize("plural", KINDS)
def test_a_creation_of_an_existing_object_is_a_conflict(plane: Plane, namespace: str, plural: str) -> None:
    """The warnings that the server adds for Endpoints are no part of the answer."""
    config = plane.kubeconfig(namespace=namespace)
    collection = f"/api/v1/namespaces/{namespace}/{plural}"
    assert call(config, "POST", collection, thing(plural))["metadata"]["uid"]
    refused = failure(config, "POST", collection, thing(plural))
    assert refused.kind is Kind.CONFLICT
    assert refused.message == f'{plural} "x" already exists'


def test_a_deletion_deletes_only_the_observed_version(plane: Plane, namespace: str) -> None:
    config = plane.kubeconfig(namespace=namespace)
    collection = f"/api/v1/namespaces/{namespace}/configmaps"
    made = call(config, "POST", collection, thing("configmaps"))["metadata"]
    seen = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
    options = {"kind": "DeleteOptions", "apiVersion": "v1"}
    for other in ({"uid": "another"}, {"resourceVersion": "1"}):
        refused = failure(config, "DELETE", f"{collection}/x", {**options, "preconditions": {**seen, **other}})
        assert refused.kind is Kind.CONFLICT
    assert call(config, "DELETE", f"{collection}/x", {**options, "preconditions": seen})["status"] == "Success"
    assert failure(config, "DELETE", f"{collection}/x", {**options, "preconditions": seen}).kind is Kind.MISSING


def test_a_creation_in_a_missing_namespace_is_refused_with_a_remedy(plane: Plane) -> None:
    config = plane.kubeconfig()
    refused = failure(config, "POST", "/api/v1/namespaces/nowhere/configmaps", thing("configmaps"))
    assert refused.kind is Kind.REFUSED
    assert refused.message.endswith("kubectl create namespace nowhere, or give -n")


def test_unserved_resource_is_not_mistaken_for_a_missing_object(plane: Plane) -> None:
    """Whether it knows the group, the version, or neither."""
    config = plane.kubeconfig()
    for group in ("coordination.k8s.io/v1", "coordination.k8s.io/v1alpha9", "nope.example.org/v1"):
        refused = failure(config, "GET", f"/apis/{group}/namespaces/default/gadgets/x")
        assert refused.kind is Kind.REFUSED, group
        assert f"serves no gadgets of {group} (" in refused.message


LONG: dict[str, Object] = {
    "data": {"data": {"a": "x" * (1 << 20), "b": "y"}},
    "annotations": {"metadata": {"name": "x", "annotations": {"a": "x" * (1 << 18)}}},
    "request": {"data": {"a": "x" * (4 << 20)}},
}


@pytest.mark.parametrize("what", LONG)
def test_full_object_is_reported_with_how_to_fix_it(plane: Plane, namespace: str, what: str) -> None:
    config = plane.kubeconfig(namespace=namespace)
    body = thing("configmaps", **LONG[what])
    refused = failure(config, "POST", f"/api/v1/namespaces/{namespace}/configmaps", body)
    assert refused.kind is Kind.REFUSED
    assert re.fullmatch(
        r"the lock's object is full \(.*(Too long|too large).*\): remove something from it, or give another --name",
        refused.message,
    )


def test_object_larger_than_etcd_allows_is_reported(plane: Plane, namespace: str) -> None:
    """Nothing limits Endpoints before etcd does."""
    addresses = [{"ip": f"10.1.{n // 250}.{n % 250 + 1}", "hostname": f"h{n:062d}"} for n in range(22_000)]
    body = thing("endpoints", subsets=[{"addresses": addresses, "ports": [{"port": 1}]}])
    refused = failure(plane.kubeconfig(), "POST", f"/api/v1/namespaces/{namespace}/endpoints", body)
    assert refused.kind is Kind.REFUSED
    assert "is full (etcdserver: request is too large)" in refused.message


def test_an_exceeded_quota_is_not_reported_as_a_missing_permission(plane: Plane, namespace: str) -> None:
    """Its status is what the controller manager would write."""
    config, hard = plane.kubeconfig(namespace=namespace), {"configmaps": "0"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": namespace}}
    made = plane.api.create({**quota, "spec": {"hard": hard}})
    target = path("v1", "ResourceQuota", namespace, "q")
    plane.api.request("PUT", f"{target}/status", {**made, "status": {"hard": hard, "used": hard}})

    refusals: list[Failure] = []
    serial = itertools.count()

    def refused() -> bool:
        """The server learns of the quota by its own watch."""
        try:
            call(config, "POST", f"/api/v1/namespaces/{namespace}/configmaps", thing("configmaps", f"c{next(serial)}"))
        except LockError as error:
            refusals.append(error.failure)
        return bool(refusals)

    wait_until(refused, "the quota counts")
    assert refusals[0].kind is Kind.REFUSED
    assert "exceeded quota: q" in refusals[0].message
    assert refusals[0].message.endswith(": raise that ResourceQuota, or give another namespace by -n")


def skewed(kubeconfig: Path, target: str) -> tuple[float, float]:
    async def ask() -> tuple[float, float]:
        async with api_client(kubeconfig) as api:
            before = api.skew
            await api.call("GET", target, None, 10)
            assert before is None
            assert api.skew
            return api.skew

    return asyncio.run(ask())


def test_the_server_s_clock_is_known_to_a_second_from_its_answers(plane: Plane) -> None:
    """It runs on the same machine."""
    seconds, error = skewed(plane.kubeconfig(), "/api")
    assert abs(seconds) <= error
    assert error >= 0.5
