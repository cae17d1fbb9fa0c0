"""The system's resolver, in threads of its own.

A lookup cannot be ended: a name whose servers are silent keeps its thread for half a minute, although nobody waits any
more. Tenants choose the names. So a lookup first waits for a free thread and has its time only then: the names of one
tenant delay the checks of others, and do not make them look wrong.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

__all__ = ["SystemResolver"]

_THREADS = 16


def _addresses(hostname: str) -> Collection[str]:
    return {str(entry[4][0]) for entry in socket.getaddrinfo(hostname, None, type=socket.SOCK_STREAM)}


class SystemResolver:
    """`await resolver(hostname)`: the addresses. `lookup` blocks. `seconds`: how long an answer may take."""

    def __init__(
        self, lookup: Callable[[str], Collection[str]] = _addresses, *, threads: int = _THREADS, seconds: float = 5.0
    ) -> None:
        self._lookup = lookup
        self._seconds = seconds
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="dns")
        self._free = asyncio.Semaphore(threads)

    async def __call__(self, hostname: str) -> Collection[str]:
        """Raises OSError when there is no address, and `TimeoutError` without an answer in time."""
        await self._free.acquire()
        looking = asyncio.get_running_loop().run_in_executor(self._threads, self._lookup, hostname)
        looking.add_done_callback(self._end)
        async with asyncio.timeout(self._seconds):
            return await asyncio.shield(looking)

    def _end(self, looking: asyncio.Future[Collection[str]]) -> None:
        self._free.release()
        if not looking.cancelled():
            looking.exception()  # retrieved here, since it may be that nobody waits any more
