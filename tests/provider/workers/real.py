"""`lessor worker` processes with real engines on a control plane, a PostgreSQL and a Redis, and the leader's side.

The states are in the same PostgreSQL, by Pulumi's own backend. Each worker has a home of its own. A worker that is
killed is started again, in the same home, as its supervisor would.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from cryptography.fernet import Fernet
from sqlalchemy import select
from structlog.testing import capture_logs
from structlog.typing import EventDict

from provider.kube.client import KubeCluster
from provider.leadership import Leadership, led
from provider.protocols.clock import SystemClock
from provider.protocols.cluster import NAMESPACE
from provider.store import open_database
from provider.store.sealing import load_ring
from provider.store.tables import stack_operations
from provider.workers.bell import Bell, celery_app
from provider.workers.lease_locks import locked_stacks
from provider.workers.operations import Operations
from provider.workers.queued_engine import QueuedEngine
from stacks.common import EngineConfig, write_private
from tests.provider.workers.parts import NoStacks
from tests.world.patience import eventually
from tests.world.postgresql_server import PostgresqlServer
from tests.world.processes import ends_with_test

__all__ = ["RealWorkers"]

_RECORDS = "lease"
_TERM_S = 30.0
"""As by default: a busy machine renews shorter ones too late, and each time interrupts what runs."""


class RealWorkers:
    """`slots`: operations at once of each worker. `shared`: the settings that a leader and its workers have alike."""

    def __init__(self, folder: Path, kubeconfig: Path, postgresql: PostgresqlServer, redis: str, *, slots: int) -> None:
        self.folder, self.kubeconfig, self.redis, self.slots = folder, kubeconfig, redis, slots
        self.store = postgresql.new_database(migrated=True)
        name = self.store.rpartition("/")[2]
        self.backend = f"postgres://lessor@127.0.0.1:{postgresql.port}/{name}?sslmode=disable"
        write_private(folder / "store.key", Fernet.generate_key().decode() + "\n")
        write_private(folder / "stack.key", secrets.token_urlsafe(32))
        self.shared = {
            "LESSOR_STORE_URL": self.store, "LESSOR_STORE_KEY_FILE": str(folder / "store.key"),
            "LESSOR_STACK_BACKEND": self.backend, "LESSOR_STACK_KEY_FILE": str(folder / "stack.key"),
            "LESSOR_STACK_QUEUE": redis, "LESSOR_LEADER_LEASE": "lessor", "LESSOR_LEADER_TERM": f"{_TERM_S:g}s",
        }  # fmt: skip
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._said: list[EventDict] = []

    def start(self, name: str) -> None:
        """Start the worker of that name; its log is appended to."""
        environment = os.environ | self.shared | {
            "AP_HOME": str(self.folder / name), "KUBECONFIG": str(self.kubeconfig),
            "LESSOR_STACK_WORKERS": str(self.slots), "LESSOR_LOG_FORMAT": "json",
        }  # fmt: skip
        argv = [sys.executable, "-m", "provider.cli", "worker"]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = ends_with_test(subprocess.Popen(argv, env=environment, stdout=log, stderr=log))

    async def ready(self) -> None:
        """Wait until every worker takes tasks."""
        await eventually(lambda: set(self._pids()) <= {each["worker"] for each in self.events("worker.ready")})

    def _pids(self) -> dict[str, str]:
        """The name that a worker has in rows and logs → its name here."""
        return {f"{socket.gethostname()}-{process.pid}": name for name, process in self.running.items()}

    def kill(self, name: str) -> None:
        """SIGKILL, and start it again."""
        self.running[name].send_signal(signal.SIGKILL)
        self.running[name].wait()
        self.start(name)

    def end(self) -> None:
        """SIGTERM to all, and wait for the end."""
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait(120)

    def events(self, event: str) -> list[dict[str, object]]:
        """Lines of that event in the workers' logs."""
        lines = [line for file in self.folder.glob("*.log") for line in file.read_text(errors="replace").splitlines()]
        found = [json.loads(line) for line in lines if line.startswith("{") and f'"{event}"' in line]
        return [each for each in found if each.get("event") == event]

    def done(self) -> Counter[str]:
        """Stack → how many operations on it the workers have done well."""
        return Counter(str(each["stack"]) for each in self.events("queue.done") if each.get("ok"))

    @property
    def taken_over(self) -> int:
        """How often the leader has called another worker, since one had died in an operation."""
        return [each["event"] for each in self._said].count("queue.worker_lost")

    async def left(self, stacks: Collection[str]) -> int:
        """How many operations and locks of these stacks there are."""
        database = await open_database(self.store)
        try:
            async with database.reading() as connection:
                asked = set((await connection.execute(select(stack_operations.c.stack))).scalars())
            return len(asked & set(stacks)) + len(await locked_stacks(database, stacks))
        finally:
            await database.close()

    @asynccontextmanager
    async def leader(self, *, places: int) -> AsyncIterator[QueuedEngine]:
        """The leader's engine, running, with the term of a real Kubernetes Lease."""
        config = EngineConfig(
            data=self.folder / "leader", kubeconfig=self.kubeconfig, pulumi=self.folder, backend=self.backend
        )
        database, cluster = await open_database(self.store), KubeCluster(self.kubeconfig)
        await cluster.apply({"apiVersion": "v1", "kind": NAMESPACE.kind, "metadata": {"name": _RECORDS}})
        leadership = Leadership(
            cluster, name="lessor", namespace=_RECORDS, identity="test", clock=SystemClock(), seconds=_TERM_S, span=20
        )  # fmt: skip
        app = celery_app(self.redis, backend=self.backend, longest_s=1240)
        operations = Operations(database, load_ring(self.folder / "store.key"))
        async with led(leadership):
            engine = QueuedEngine(
                NoStacks(), operations, Bell(app), config=config, places=places, term=lambda: leadership.term,
                locked=partial(locked_stacks, database),
            )  # fmt: skip
            running = asyncio.create_task(engine.run())
            try:
                with capture_logs() as self._said:
                    yield engine
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
        app.close()
        await database.close()
        await cluster.aclose()
