"""How much of what is drawn by chance a run tries, and from which seed; both are environment variables."""

from __future__ import annotations

import os
import secrets

#: Times what `make test` tries. `make test-all` and `make mutants` set 4.
EFFORT = int(os.environ.get("KLEADER_TEST_EFFORT", "1"))
#: Of the first schedule; a fresh one in each run, where none is given.
SEED = int(os.environ.get("KLEADER_TEST_SEED", secrets.randbits(40)))
