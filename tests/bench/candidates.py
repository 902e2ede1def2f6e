"""`python -m tests.bench.candidates [NUMBER...]`: what candidates that wait cost a real API server in an hour.

As many as NUMBER register and renew, and a leader follows their list, by the elector's own code with a twentieth of its
periods, for a twentieth of an hour; the API server's audit log counts their requests. The bytes that the leader's watch
receives, and the requests of 10,000 candidates for locks of three, are calculated.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from kleader.election.state import Phase, State
from kleader.elector import registration
from kleader.elector.recommendation import Recommendation
from kleader.elector.registration import Registration
from kleader.ipc.plan import Plan, Pod
from kleader.kube.credentials import Credentials
from kleader.locks import candidate_registry as registry
from kleader.log import Log
from tests.cluster.contract import reader_of
from tests.support.api import lease_path
from tests.support.controlplane import ControlPlane

if TYPE_CHECKING:
    from kleader.locks.base import Lock

SCALE = 20
HOUR = 3600.0
CALCULATED = 10_000
RECORD = SimpleNamespace(record=SimpleNamespace(holder="other"))
WAITING = SimpleNamespace(
    phase=Phase.FOLLOWING, observed=RECORD, me=SimpleNamespace(identity="me", one_try=False, live=False)
)


def plan_of(namespace: str, number: int) -> Plan:
    """That of a candidate for the lock x."""
    given = {"name": "x", "identity": f"worker-{number:05}_{number:036}", "lock": "lease", "started": float(number)}
    given |= {"registers": True, "priority": 0, "pod": Pod(namespace, f"worker-{number:05}", "")}
    return Plan(**{**dict.fromkeys(Plan.__annotations__, ""), **given})  # type: ignore[arg-type]


def credentials_of(plane: ControlPlane, user: str, namespace: str) -> Credentials:
    config = plane.kubeconfig(user, namespace)
    return Credentials({"kubeconfig": str(config)}, reader_of(config))


def measure(plane: ControlPlane, number: int) -> int:
    """Print the requests of so many candidates in an hour, and the bytes of the list; their number."""
    user, leader, namespace = plane.new_user(), plane.new_user(), plane.new_namespace()
    log = Log(verbosity=0)

    async def wait() -> None:
        lock = SimpleNamespace(namespace=namespace, recommended="", server_time=None)
        chooses = Recommendation(
            plan_of(namespace, number), credentials_of(plane, leader, namespace), log, cast("Lock", lock)
        )
        chooses.follow(cast("State", SimpleNamespace(phase=Phase.LEADING)))
        candidates = [
            Registration(plan_of(namespace, each), credentials, log, namespace, lambda: None, fresh=True)
            for each, credentials in enumerate(credentials_of(plane, user, namespace) for _ in range(number))
        ]
        for candidate in candidates:
            candidate.follow(cast("State", WAITING))
        await asyncio.sleep(HOUR / SCALE)
        assert lock.recommended, "the leader has seen the list"

    asyncio.run(wait())
    verbs = Counter(each["verb"] for each in plane.audit_requests(user))
    writes = verbs["patch"] + verbs["update"]
    size = len(json.dumps(plane.api.get(lease_path(namespace, "candidates.x"))))
    followed = len(plane.audit_requests(leader))
    print(f"{number:>10} {verbs.total():>18} {writes:>10} {size:>14} {followed:>16} {size * writes:>17}", flush=True)
    return verbs.total()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("number", nargs="*", type=int, default=[3, 100])
    numbers = parser.parse_args().number
    registry.RENEWAL /= SCALE
    registration._DELAY_SECONDS /= SCALE
    with ControlPlane() as plane:
        print("candidates  requests in 1 hour     writes  bytes of list  the leader makes  bytes it watches")
        for number in numbers:
            found = measure(plane, number)
            if number == 3:
                print(f"{CALCULATED:>10} {found * CALCULATED // number:>18}  calculated: in locks of three")


if __name__ == "__main__":
    main()
