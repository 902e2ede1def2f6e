"""kleader's client of the API, for tests of what is built on it."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kleader.kube.client import ApiClient
from kleader.kube.credentials import Credentials
from kleader.launch import interpreter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


def credentials(kubeconfig: Path) -> Credentials:
    """Return credentials that are read as the elector reads them."""
    return Credentials(
        {"kubeconfig": str(kubeconfig)}, lambda options: [*interpreter(), "kubeconfig", options, *sys.path]
    )


@asynccontextmanager
async def api_client(kubeconfig: Path) -> AsyncIterator[ApiClient]:
    """A client that is closed before its loop."""
    api = ApiClient(credentials(kubeconfig))
    try:
        yield api
    finally:
        api.close()
        for _ in range(10):  # turns of the loop, in which TLS lets go of its socket
            await asyncio.sleep(0)
