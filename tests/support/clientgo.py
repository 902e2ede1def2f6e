"""The real client-go candidate of tests/clientgo; also `python -m tests.support.clientgo build`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.support.gobuild import GoError, GoModule

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_MODULE = GoModule("clientgo", {"clientgo": "kleader.test/clientgo"})


def build() -> Path:
    """Return the candidate's binary, built where it is not yet; GoError where that cannot be."""
    return _MODULE.build("clientgo") / "clientgo"


def candidate(
    kubeconfig: Path,
    namespace: str,
    name: str,
    identity: str,
    command: Sequence[str],
    *,
    lease_duration: str = "15s",
    renew_deadline: str = "10s",
    retry_period: str = "2s",
    release_on_cancel: bool = True,
    stop_first: bool = False,
) -> list[str]:
    """Return the argv of one candidate that runs `command` while it leads.

    On TERM it releases the lease and then kills the command, as client-go has it; with `stop_first` the command is
    stopped and waited for before the lease is released.
    """
    options: dict[str, object] = {
        "kubeconfig": kubeconfig,
        "namespace": namespace,
        "name": name,
        "identity": identity,
        "lease-duration": lease_duration,
        "renew-deadline": renew_deadline,
        "retry-period": retry_period,
        "release-on-cancel": str(release_on_cancel).lower(),
        "stop-first": str(stop_first).lower(),
    }
    return [str(build()), *(f"-{key}={value}" for key, value in options.items()), *command]


def main(arguments: Sequence[str]) -> int:
    """Build the candidate and print where it is."""
    if list(arguments) != ["build"]:
        print("usage: python -m tests.support.clientgo build", file=sys.stderr)  # noqa: T201 - it is for a person
        return 2
    try:
        print(build())  # noqa: T201
    except GoError as error:
        print(f"clientgo: error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
