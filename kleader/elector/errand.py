"""What the elector tells the API server beside the lock. It is never worth a term: nothing is raised, it may fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kleader.locks.answers import ForbiddenError
from kleader.locks.api import Api
from kleader.locks.base import LockError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kleader.locks.credentials import Credentials
    from kleader.log import Log


class Errand:
    """Run on a connection of its own each time, so that no request of the lock waits for it.

    ``grant``: what to grant, and what for, where it is forbidden; ``undone``: what was not done where it failed.
    A person is warned of the first once; where it ``matters``, of the second too, and of both anew after a success.
    """

    def __init__(self, credentials: Credentials, log: Log, grant: str, undone: str, *, matters: bool = False) -> None:
        self._credentials, self._log = credentials, log
        self._grant, self._undone, self._matters = grant, undone, matters
        self._warned: set[str] = set()

    async def run(self, work: Callable[[Api], Awaitable[None]]) -> bool:
        """Whether it was done."""
        api = Api(self._credentials, guest=True)
        try:
            await work(api)
        except ForbiddenError as error:
            self._warn(self._grant, str(error))
        except LockError as error:
            self._failed(str(error))
        except Exception as error:  # noqa: BLE001 - as the module says
            self._failed(f"{type(error).__name__}: {error}")
        else:
            if self._matters:
                self._warned.clear()
            return True
        finally:
            api.close()
        return False

    def _failed(self, reason: str) -> None:
        if self._matters:
            self._warn(self._undone, reason)
        else:
            self._log.debug(f"{self._undone}: {reason}")

    def _warn(self, what: str, reason: str) -> None:
        (self._log.debug if what in self._warned else self._log.warning)(f"{what}: {reason}")
        self._warned.add(what)
