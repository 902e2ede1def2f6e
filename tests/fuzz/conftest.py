"""How many examples are tried: the same ones each time, or with KLEADER_FUZZ_EXAMPLES so many fresh ones."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir

from tests.support.chance import EFFORT

HERE = Path(__file__).parent
EXAMPLES = os.environ.get("KLEADER_FUZZ_EXAMPLES")

set_hypothesis_home_dir(tempfile.gettempdir() + "/kleader-hypothesis")  # what it caches is none of the tree's
settings.register_profile(
    "kleader",
    max_examples=int(EXAMPLES or 25 * EFFORT),
    derandomize=not EXAMPLES,
    database=None,  # what does harm is kept in the corpus
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
settings.load_profile("kleader")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A hundred examples take as long as the machine is slow; what an input may cost is measured in test_bounds.py."""
    for item in items:
        if config.getoption("timeout") is None and item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.timeout(300))
