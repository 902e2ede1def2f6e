"""The lines of kleader's log, as text or JSON: a test asks for events, and depends on neither prefix nor wording."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from kleader.supervisor.states import RunState

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHOWN = {"not competing": "resting", "stopping standby": "giving way", "cleaning up": "sweeping"}  # a role as text
_ROLES = "|".join([*_SHOWN, *(state.value for state in RunState if state.value not in _SHOWN.values())])
_LINE = re.compile(
    rf"\S+Z kleader (?P<lock>.*? )?(?P<role>{_ROLES})(?: \[(?P<suffix>[^\]]+)\])?:"
    r" (?:(?P<level>error|warning|debug): )?(?P<message>.*)"
)

# How the text log words an event: one place to change with the sentence. JSON has the event's name.
SENTENCES = {
    "acquired": "acquired the lock .* after ",
    "already_done": "already done by ",
    "became_leader": "became leader",
    "command_exited": "the command (exited|was ended)",
    "command_forked": "forked the command: pid ",
    "command_killed": "the command .*killed it with SIGKILL|killed the command with SIGKILL",
    "command_restarting": "restarting the command in ",
    "command_started": "started the command: pid ",
    "command_stopping": "stopping the command with ",
    "command_suspended": "the command was stopped by ",
    "elector_not_started": "cannot start the elector: ",
    "elector_replaced": "the elector died: replaced by pid ",
    "elector_stopped": "the elector was stopped by a signal: replacing it",
    "elector_unresponsive": "the elector does not answer: replacing it",
    "exporter_restarted": "the exporter .*: starting it again",
    "healthy": "health check succeeding",
    "holder_unknown": "the lock is held; its file does not name the holder",
    "hook_failed": "the --.* command(:| was ended by | exited with )",
    "hook_killed": "the --.* (took too long|did not finish)",
    "leader_observed": "the leader is ",
    "lock_file_replaced": "the lock file was removed or replaced while a leader holds it: ",
    "lost": "lost the lock: ",
    "not_acquired": "not acquired",
    "not_released": "did not release the lock",
    "processes_abandoned": "leaving processes that do not die",
    "recommendation_failed": "so that a rolling update changes the leader only once: ",
    "released": "released the lock",
    "request_ignored": "ignored a request ",
    "run_not_recorded": "^did not record the run: ",
    "signal_received": "SIG[A-Z]+ came: exiting with status ",
    "standby_chosen": "^the next leader should be ",
    "standby_exited": "the standby ended after ",
    "standby_killed": "the standby did not stop in time",
    "standby_started": "started the standby",
    "standby_stopping": "stopping the standby",
    "standby_unkillable": "the standby does not die",
    "standing_aside": "not competing for .* another candidate can lead",
    "status_socket_failed": "is-leader cannot ask this kleader: ",
    "stepping_down": "stepping down: ",
    "supervisor_died": "the supervisor died: ",
    "taking_over": "an earlier process of this Pod held the lock",
    "term_ended": "^led for ",
    "unhealthy": "health check failing",
    "version_changed": "was replaced by another version|another version of kleader was installed",
    "waiting_for_previous_leader": "may still run: ",
    "watch_failed": "polling instead$",
}


class Line(NamedTuple):
    """One line; ``event`` is "" in a text log."""

    level: str
    role: str
    event: str
    message: str

    def is_of(self, event: str, about: str) -> bool:
        """Whether it logs this event, "" for any, with a message in which the regular expression is found."""
        named = self.event == event if self.event else re.search(SENTENCES[event], self.message) if event else True
        return bool(named and re.search(about, self.message))


def lines(text: str) -> Iterator[Line]:
    """Each line that kleader logged; not what the command or another program wrote."""
    for line in text.splitlines():
        if found := _LINE.fullmatch(line):
            level, role = found["level"] or "info", found["role"]
            yield Line(level.upper(), _SHOWN.get(role, role), "", found["message"])
        elif line.startswith('{"time": ') and line.endswith("}"):
            shown = json.loads(line)
            yield Line(shown["level"], shown["role"], shown["event"], shown["message"])
