"""What happens to API server and etcd."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.prove.fault import SharedFault

if TYPE_CHECKING:
    import random
    from contextlib import ExitStack

    from tests.support.controlplane import ControlPlane

LONGEST = 7.0  # seconds; beyond every lease


class Down(SharedFault):
    """A server ends, by SIGKILL or as asked, and is started again."""

    def __init__(self, name: str, daemon: str, *, killed: bool) -> None:
        self.name, self._daemon, self._killed = name, daemon, killed

    def inject(self, plane: ControlPlane, rng: random.Random, undo: ExitStack) -> float:
        daemon = getattr(plane, self._daemon)
        undo.callback(plane.recover)
        if self._killed:
            daemon.kill()
        else:
            daemon.stop()
        return rng.uniform(0, LONGEST)


class Paused(SharedFault):
    """A server is stopped where it stands, and goes on later."""

    def __init__(self, name: str, daemon: str) -> None:
        self.name, self._daemon = name, daemon

    def inject(self, plane: ControlPlane, rng: random.Random, undo: ExitStack) -> float:
        daemon = getattr(plane, self._daemon)
        undo.callback(plane.recover)
        daemon.pause()
        return rng.uniform(0.5, LONGEST)


FAULTS: tuple[SharedFault, ...] = (
    Down("API server restarted", "apiserver", killed=False),
    Down("API server killed", "apiserver", killed=True),
    Paused("API server stopped (SIGSTOP)", "apiserver"),
    Down("etcd lost and back", "etcd", killed=True),
    Paused("etcd stopped (SIGSTOP)", "etcd"),
)
