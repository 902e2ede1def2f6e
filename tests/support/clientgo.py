"""The real candidates in tests/clientgo, and client-go's clientcmd; also `python -m tests.support.clientgo build`."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Literal

from tests.support.gobuild import GoError, GoModule

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    Version = Literal["current", "legacy"]
    Program = Version | Literal["forlife", "kubeconfig"]
    Lock = Literal["leases", "endpoints", "configmaps", "endpointsleases", "configmapsleases"]

MODULES: dict[Program, GoModule] = {
    "current": GoModule("clientgo/current", {"current": "kleader.test/current"}),
    "legacy": GoModule("clientgo", {"legacy": "./legacy"}),
    "forlife": GoModule("clientgo/forlife", {"forlife": "kleader.test/forlife"}),
    "kubeconfig": GoModule("clientgo/current", {"kubeconfig": "kleader.test/current/kubeconfig"}),
}

_COMPLAINT = re.compile(r"^[WEF]\d{4} .*$", re.MULTILINE)  # klog's head of a warning, an error, a fatal error
_LOST_RACE = ("the object has been modified", "already exists", "cannot be fulfilled")
# TERM came in mid-request; v0.23 has then forgotten the object that it wants to renew (multilocks) or to release.
_OWN_END = ("context canceled", "resource name may not be empty")
_HARMLESS = _LOST_RACE + _OWN_END


def complaints(log: str) -> list[str]:
    """What a client-go complains of, but races that it lost and requests that it has broken off itself."""
    return [line for line in _COMPLAINT.findall(log) if not any(word in line for word in _HARMLESS)]


def build(program: Program = "current") -> Path:
    """Return the program's binary, built where it is not yet; GoError where that cannot be."""
    return MODULES[program].build(program) / program


def build_all() -> list[Path]:
    """Build every program."""
    return [build(program) for program in MODULES]


def candidate(
    kubeconfig: Path,
    namespace: str,
    name: str,
    identity: str,
    command: Sequence[str],
    *,
    lock: Lock = "leases",
    version: Version | None = None,
    coordinated: bool = False,
    binary_version: str = "1.36.0",
    emulation_version: str = "1.36.0",
    lease_duration: str = "15s",
    renew_deadline: str = "10s",
    retry_period: str = "2s",
    release_on_cancel: bool = True,
    stop_first: bool = False,
) -> list[str]:
    """Return the argv of one candidate that runs `command` while it leads.

    `version`: "current" is client-go v0.36, which has Leases alone and may be `coordinated` (KEP-4355); "legacy" is
    v0.23.16, which has every lock. Unless told it is the current one where that has the lock.

    On TERM it releases the lock and then kills the command, as client-go has it; with `stop_first` no release is sent
    before the command has ended. Its standard error has `new leader: ID` for each leader that it sees.
    """
    options: dict[str, object] = {
        "kubeconfig": kubeconfig,
        "lock": lock,
        "namespace": namespace,
        "name": name,
        "identity": identity,
        "lease-duration": lease_duration,
        "renew-deadline": renew_deadline,
        "retry-period": retry_period,
        "release-on-cancel": str(release_on_cancel).lower(),
        "stop-first": str(stop_first).lower(),
    }
    if coordinated:
        options |= {"coordinated": "true", "binary-version": binary_version, "emulation-version": emulation_version}
    program = build(version or ("current" if lock == "leases" else "legacy"))
    return [str(program), *(f"-{key}={value}" for key, value in options.items()), *command]


def candidate_for_life(
    kubeconfig: Path, namespace: str, name: str, pod: str, command: Sequence[str], *, max_backoff: str = "16s"
) -> list[str]:
    """Return the argv of a candidate on operator-lib's leader-for-life, as in the Pod `pod`, which must be there.

    It leads for as long as its Pod lives, also when it is started anew. TERM stops the command; nothing is released.
    Its standard error says `Became the leader`, `Continuing as the leader` or `Not the leader`.
    """
    options = {"kubeconfig": kubeconfig, "namespace": namespace, "name": name, "pod": pod, "max-backoff": max_backoff}
    return [str(build("forlife")), *(f"-{key}={value}" for key, value in options.items()), *command]


def main(arguments: Sequence[str]) -> int:
    """Build the candidates and print where they are."""
    if list(arguments) != ["build"]:
        print("usage: python -m tests.support.clientgo build", file=sys.stderr)  # noqa: T201 - it is for a person
        return 2
    try:
        print(*build_all(), sep="\n")  # noqa: T201
    except GoError as error:
        print(f"clientgo: error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
