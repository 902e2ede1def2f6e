"""Whatever happens to a supervisor, in any order, nothing starts or is released beside the living; each life ends."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.support.lives import Lives

if TYPE_CHECKING:
    import pytest

MANY = 5000


def test_nothing_goes_wrong_in_any_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other ones each time; `Lives(monkeypatch).live(seed)` replays what is told here."""
    lives, first = Lives(monkeypatch), random.SystemRandom().randrange(10**9)
    wrong = {seed: world.wrong for seed in range(first, first + MANY) if (world := lives.live(seed)).wrong}
    assert wrong == {}
