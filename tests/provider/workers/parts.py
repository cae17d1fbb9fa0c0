"""The leader's side of the queue as tests use it, and workers whose engine only writes down what it does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from provider.store import open_database
from provider.store.sealing import KeyRing
from provider.workers.bell import Bell, celery_app
from provider.workers.lease_locks import locked_stacks
from provider.workers.operations import Operations
from provider.workers.queued_engine import QueuedEngine
from stacks.common import EngineConfig, StackResult
from tests.world.processes import start_process

__all__ = ["KEY", "TERM_S", "NoStacks", "leader", "worker"]

KEY = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG="
TERM_S = 10.0
"""A busy machine renews shorter terms too late, and the leader ends."""
ROOT = Path(__file__).parents[3]


class NoStacks:
    """`StackList` of nothing."""

    async def stacks(self) -> Sequence[str]:
        return ()

    def saw(self, result: StackResult) -> StackResult:
        return result


@asynccontextmanager
async def leader(
    url: str, redis: str, folder: Path, *, places: int = 8, term: Callable[[], int] = lambda: 0,
    over: Callable[[], str] = lambda: "",
) -> AsyncIterator[QueuedEngine]:  # fmt: skip
    """A `QueuedEngine` that is to be run, on a store and a Redis."""
    database = await open_database(url)
    config = EngineConfig(data=folder, kubeconfig=folder, pulumi=folder, backend=url)
    app = celery_app(redis, backend=url, longest_s=600)
    try:
        yield QueuedEngine(
            NoStacks(), Operations(database, KeyRing.of([KEY])), Bell(app), config=config, places=places,
            term=term, locked=partial(locked_stacks, database), over=over,
        )  # fmt: skip
    finally:
        app.close()
        await database.close()


def worker(url: str, redis: str, journal: Path, name: str, *more: str | Path) -> subprocess.Popen[bytes]:
    """A worker process (`tests.provider.workers.process`)."""
    argv = [sys.executable, "-m", "tests.provider.workers.process", url, redis, journal, name, *more]
    return start_process(argv, cwd=ROOT)
