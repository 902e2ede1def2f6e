"""Whatever happens, no command starts and no lock is released beside a living process, and each run ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.chance import EFFORT, SEED
from tests.support.lives import Lives

if TYPE_CHECKING:
    import pytest

MANY = 1250 * EFFORT


def test_no_command_starts_and_no_lock_is_released_beside_a_living_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Lives(monkeypatch).live(seed)` replays a failure."""
    lives, first = Lives(monkeypatch), SEED % 10**9
    wrong = {seed: world.wrong for seed in range(first, first + MANY) if (world := lives.live(seed)).wrong}
    assert wrong == {}
