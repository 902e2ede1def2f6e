"""Any annotation of latest runs is read, and extended within its bounds."""

from __future__ import annotations

from kleader.locks import run_history
from kleader.locks.run_history import MAX_HISTORY_BYTES, MAX_RUNS, Once, Run
from tests.fuzz.foreign import foreign

NOW = 1_795_400_000_000_000
RUN = Run("me", "9", "k", NOW, NOW, 0, "exited")


@foreign("runs")
def test_any_annotation_of_runs_is_read_and_extended(data: bytes) -> None:
    for errors in ("replace", "surrogateescape"):
        runs = run_history.read(data.decode(errors=errors))
        assert len(runs) <= MAX_RUNS
        added = run_history.add(runs, RUN)
        assert added[0] == RUN
        written = run_history.write(added)
        assert len(written.encode()) <= MAX_HISTORY_BYTES
        assert run_history.read(written) == added
        done = Once("k", 60.0, after_any=True).done_by(runs, NOW, 0, 0)
        assert done is None or done in runs
