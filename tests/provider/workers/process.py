"""A worker as a process, with an engine that writes down what it begins and ends and takes a while between.

Arguments: URL of the store, URL of Redis, file of the journal, name; where a leader is elected, the kubeconfig too.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from provider.kube.client import KubeCluster
from provider.protocols.clock import SystemClock
from provider.store import open_database
from provider.store.sealing import KeyRing
from provider.workers.bell import celery_app
from provider.workers.consumer import consuming
from provider.workers.followed_term import FollowedTerm
from provider.workers.host import WorkerHost
from provider.workers.lease_locks import LeaseLocks
from provider.workers.operations import Operations
from stacks.common import Priority, StackResult, Task
from tests.provider.workers.parts import KEY, TERM_S

_WORK_S = 0.4


class Journal:
    """The engine. A line is one write, so that lines of several processes stand one after the other."""

    def __init__(self, file: Path, name: str) -> None:
        self._descriptor, self._name = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT), name

    async def perform(self, task: Task, priority: Priority = Priority.UPDATE) -> StackResult:
        del priority
        self._write("begin", task.stack)
        await asyncio.sleep(_WORK_S)
        self._write("end", task.stack)
        return StackResult(task.operation, task.stack, ok=True, seconds=_WORK_S, outputs={"worker": self._name})

    def _write(self, what: str, stack: str) -> None:
        os.write(self._descriptor, f"{what} {stack} {self._name}\n".encode())


async def main(url: str, redis: str, journal: Path, name: str, kubeconfig: Path | None = None) -> None:
    database = await open_database(url, migrate=False)
    async with LeaseLocks.opened(database) as locks, asyncio.TaskGroup() as group:
        host = WorkerHost(Journal(journal, name), Operations(database, KeyRing.of([KEY])), locks, name=name)
        group.create_task(locks.watch())
        if kubeconfig is not None:
            host.term = FollowedTerm(
                KubeCluster(kubeconfig), name="lessor", namespace="lease", clock=SystemClock(), seconds=TERM_S,
                note=lambda until: None, idle=host.idle,
            )  # fmt: skip
            group.create_task(host.term.follow())
        app = celery_app(redis, backend=url, longest_s=600)
        group.create_task(consuming(app, host.attempt, places=2, name=name))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4], *map(Path, sys.argv[5:])))
