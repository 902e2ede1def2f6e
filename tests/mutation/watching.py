"""What keeps those who watch from being told of a leader that is none, and a watcher from being in the way."""

from __future__ import annotations

from tests.mutation.mutant import Mutant

MUTANTS = [
    Mutant(
        "a term that is over sends nobody to its Pod",
        "elector/label.py",
        "                if value != self._wanted:",
        "                if False:",
        "unit/test_label.py::test_a_term_that_ends_before_its_value_is_written_leaves_no_trace[the phase]",
    ),
    Mutant(
        "a leader's label that was written without an answer is written over when it can come no more",
        "elector/label.py",
        "asyncio.get_running_loop().call_later(_DOUBT, self._write_again)",
        "pass",
        "unit/test_label.py::test_a_value_that_nobody_has_confirmed_may_come_late_and_is_written_over_once_more",
    ),
    Mutant(
        "who has lost the lock does not lead while its command winds down",
        "supervisor/report.py",
        "{State.LEADING, State.STOPPING} and not term.lost",
        "{State.LEADING, State.STOPPING}",
        "process/test_is_leader.py::test_what_was_lost_is_no_more_led",
    ),
    Mutant(
        "at an abstract address only root and the asking user are believed",
        "link/local.py",
        "not in {0, os.geteuid()}",
        "in ()",
        "process/test_is_leader.py::test_whoever_else_takes_such_an_address_is_not_believed",
    ),
    Mutant(
        "what was told last is no leader past its deadline",
        "reporter/answers.py",
        "return told.leads and now < told.kill_at",
        "return told.leads",
        "unit/test_reporter.py::test_who_leads_does_so_until_its_deadline_though_nobody_says_that_it_is_over",
    ),
    Mutant(
        "a leader that should have ended and has not is unhealthy",
        "reporter/answers.py",
        "    if told.role in _BUSY and",
        "    if False and",
        "unit/test_reporter.py::test_unhealthy_is_who_should_have_ended_twenty_seconds_ago_alone",
    ),
    Mutant(
        "the reporter is none of the command's tree",
        "supervisor/reporter.py",
        "        self._spared.add(self._pid)\n",
        "",
        "process/test_reporter.py::test_the_reporter_is_none_of_the_command",
    ),
    Mutant(
        "the state file is not written through somebody's link",
        "reporter/file.py",
        '            os.unlink(beside)\n        with open(beside, "x", ',
        '            pass\n        with open(beside, "w", ',
        "unit/test_reporter.py::test_a_link_that_somebody_put_where_the_file_is_made_is_not_followed",
    ),
]
