"""`python -m tests.bench.candidates [NUMBER...]`: what candidates that wait cost a real API server in an hour.

As many as NUMBER register and renew, by the elector's own code with a twentieth of its periods, for a twentieth of an
hour; the API server's audit log counts their requests. Those of 10,000 candidates for locks of three are calculated.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from types import SimpleNamespace
from typing import cast

from kleader.election.state import Phase, State
from kleader.elector import registration
from kleader.elector.registration import Registration
from kleader.ipc.plan import Plan
from kleader.kube.credentials import Credentials
from kleader.locks import candidate_registry as registry
from kleader.log import Log
from tests.cluster.contract import reader_of
from tests.support.api import lease_path
from tests.support.controlplane import ControlPlane

SCALE = 20
HOUR = 3600.0
CALCULATED = 10_000
RECORD = SimpleNamespace(record=SimpleNamespace(holder="other"))
WAITING = SimpleNamespace(
    phase=Phase.FOLLOWING, observed=RECORD, me=SimpleNamespace(identity="me", one_try=False, live=False)
)


def candidate(plane: ControlPlane, user: str, namespace: str, number: int) -> Registration:
    """One that waits for the lock x."""
    config = plane.kubeconfig(user, namespace)
    given = {"name": "x", "identity": f"worker-{number:05}_{number:036}", "lock": "lease", "started": float(number)}
    given |= {"registers": True, "priority": 0, "in_pod": [namespace, f"worker-{number:05}"]}
    plan = Plan(**{**dict.fromkeys(Plan.__annotations__, ""), **given})  # type: ignore[arg-type]
    credentials = Credentials({"kubeconfig": str(config)}, reader_of(config))
    return Registration(plan, credentials, Log(verbosity=0), namespace, lambda: None, fresh=True)


def measure(plane: ControlPlane, number: int) -> int:
    """Print the requests of so many candidates in an hour, and the bytes of the list; their number."""
    user, namespace = plane.new_user(), plane.new_namespace()

    async def wait() -> None:
        candidates = [candidate(plane, user, namespace, each) for each in range(number)]
        for each in candidates:
            each.follow(cast("State", WAITING))
        await asyncio.sleep(HOUR / SCALE)

    asyncio.run(wait())
    verbs = Counter(each["verb"] for each in plane.audit_requests(user))
    size = len(json.dumps(plane.api.get(lease_path(namespace, "candidates.x"))))
    print(f"{number:>10} {sum(verbs.values()):>18} {verbs['patch'] + verbs['update']:>10} {size:>14}", flush=True)
    return sum(verbs.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("number", nargs="*", type=int, default=[3, 100])
    numbers = parser.parse_args().number
    registry.RENEWAL /= SCALE
    registration._DELAY_SECONDS /= SCALE
    with ControlPlane() as plane:
        print("candidates  requests in 1 hour     writes  bytes of list")
        for number in numbers:
            found = measure(plane, number)
            if number == 3:
                print(f"{CALCULATED:>10} {found * CALCULATED // number:>18}  calculated: in locks of three")


if __name__ == "__main__":
    main()
