"""What one candidacy knows, from its first word to its end."""

from __future__ import annotations

import math
import os

from kleader.election.duration import text
from kleader.link import messages as m

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kleader.log import Log
    from kleader.platform import Process

_MOST_TOLD = 500  # processes in one message; a new elector looks for the rest itself


class Term:
    """A candidacy, and the leadership that may follow from it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.incarnation = os.urandom(16).hex()
        self.lead: m.Lead | None = None
        self.t0 = 0.0  # of the last write that counted; inf where nothing expires
        self.lost = False
        self.yielded: m.Yield | None = None  # the elector asked for its end
        self.quit = 0  # the signal that asked kleader to end
        self.start_at = math.inf  # when to start the command
        self.stop_by = math.inf  # when what was asked to stop is killed
        self.way_by = math.inf  # when the standby must have given way, or the lock is given up
        self.led_at = math.inf  # when it began to lead
        self.ending: tuple[float, str, str] | None = None  # when its end began, by which signal, and why

    @property
    def over(self) -> bool:
        """Whether leadership ends though neither the command nor a signal wants it to."""
        return self.lost or self.yielded is not None

    @property
    def gives_way(self) -> bool:
        """Whether it waits for the standby's end."""
        return self.way_by < math.inf

    @property
    def asked(self) -> bool:
        """Whether a person asked for its end."""
        return self.yielded is not None and self.yielded.asked

    def parting(self, release: bool) -> tuple[bool, str]:  # noqa: FBT001 - the plan's
        """Whether the lock is given up at its end, and to whom, "" for anybody. A request comes before the plan."""
        if self.yielded is None or self.lost:
            return release and not self.lost, ""
        return release or self.yielded.asked, self.yielded.to

    def ends(self, now: float, by: str, why: str) -> None:
        """Its command is made to end, or has; what comes first is what its end began with."""
        self.ending = self.ending or (now, by, why)

    def tell(self, log: Log, now: float) -> None:
        """Say how long it led, why it ends, and how long its processes took to die."""
        if self.lead and self.ending:
            began, by, why = self.ending
            led, dying = round(now - self.led_at, 3), round(now - began, 3)
            how = f"{text(dying)} {f'after {by}' if by else 'later'}"
            what = f"led for {text(led)}, until {why}; the last process was gone {how}"
            log.info(what, led=led, dying=dying, signal=by or None, why=why)

    def assignment(self, tree: list[Process], memory: str) -> m.Assign:
        """What a new elector has to know; ``tree``: what already runs."""
        lead = self.lead
        return m.Assign(
            self.number,
            self.incarnation,
            lead is not None,
            False,  # whether it replaces another is told by who starts it
            self.t0,
            lead.token if lead else "",
            lead.acquired if lead else 0,
            lead.transitions if lead else 0,
            [[each.pid, each.start] for each in tree[:_MOST_TOLD]],
            memory,
        )
