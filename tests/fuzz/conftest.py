"""How many examples are tried: the same ones each time, or with KLEADER_FUZZ_EXAMPLES so many fresh ones."""

from __future__ import annotations

import os
import tempfile

from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir

EXAMPLES = os.environ.get("KLEADER_FUZZ_EXAMPLES")

set_hypothesis_home_dir(tempfile.gettempdir() + "/kleader-hypothesis")  # what it caches is none of the tree's
settings.register_profile(
    "kleader",
    max_examples=int(EXAMPLES or "100"),
    derandomize=not EXAMPLES,
    database=None,  # what does harm is kept in the corpus
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
settings.load_profile("kleader")
