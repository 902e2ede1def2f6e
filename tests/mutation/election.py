"""The guards of the election: pure functions, so that they are taken away in memory."""

from __future__ import annotations

from tests.mutation.guard import Guard

TABLE = [
    Guard(
        "the command is asked to stop a renew deadline after the last renewal",
        "election.timing:Timing.stop_at",
        "t0 + self.renew_deadline",
        "t0 + self.lease_duration",
        "unit/test_timing.py::test_stop_and_kill_count_from_before_the_request()",
    ),
]
