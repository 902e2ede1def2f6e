"""The elector of a lock that is kept at the Kubernetes API."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import TYPE_CHECKING

from kleader.elector.loop import Loop
from kleader.locks.api import Api
from kleader.locks.credentials import Credentials
from kleader.locks.kinds import make

if TYPE_CHECKING:
    from collections.abc import Callable

    from kleader.link.channel import Channel
    from kleader.link.plan import Plan
    from kleader.locks.base import Lock
    from kleader.log import Log


def main(
    plan: Plan,
    channel: Channel,
    log: Log,
    supervisor: tuple[int, int],
    run_helper: Callable[[str], list[str]],
) -> None:
    """Run until the election is over; ends only by the link, whatever signals arrive.

    The loop is left as it is: closing it would wait for a name resolution that cannot be interrupted.
    """
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())

    async def find_lock(replaces: bool) -> Lock:  # noqa: FBT001 - the loop's to ask
        credentials = Credentials(plan.api, run_helper)
        await credentials.refresh()
        namespace = plan.namespace or credentials.namespace
        return make(
            plan.lock,
            Api(credentials),
            namespace,
            plan.name,
            plan.labels,
            plan.lease_duration,
            warn=log.warning,
            force=plan.force,
            replaces=replaces,
        )

    logging.getLogger("asyncio").addHandler(logging.NullHandler())  # its own remarks end in tracebacks
    logging.getLogger("asyncio").propagate = False
    sys.unraisablehook = lambda event: log.debug(repr(event.exc_value))
    asyncio.new_event_loop().run_until_complete(Loop(plan, channel, log, supervisor, find_lock).run())
