"""A process that runs stack operations for the leader: `lessor worker` (decision 42)."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import structlog

from provider.daemon.backends import engine_config
from provider.daemon.queue import queue_problem
from provider.errors import SettingsError
from provider.kube.client import KubeCluster
from provider.observe.queue import log_resident_engine
from provider.protocols.clock import SystemClock
from provider.settings import Settings
from provider.store import open_database
from provider.store.sealing import load_ring
from provider.store.stack_notes import StoredNotes
from provider.workers.followed_term import FollowedTerm
from provider.workers.host import WorkerHost
from provider.workers.lease_locks import LeaseLocks
from provider.workers.operations import Operations
from stacks.common import EngineConfig, forget_term, installed_plugin, write_term
from stacks.engine import PulumiEngine

__all__ = ["run_worker"]

_log = structlog.get_logger("lessor")


async def run_worker(settings: Settings) -> None:
    """Run what the leader asks for until cancelled; running operations are interrupted then, and another worker has
    them. Raises `SettingsError`, `StoreError` and `EngineError`.
    """
    if not settings.stack_queue.get_secret_value():
        raise SettingsError("LESSOR_STACK_QUEUE is not set: a worker needs the Redis through which the leader calls it")
    if problem := queue_problem(settings):
        raise SettingsError(problem)
    config = engine_config(settings)
    name = f"{socket.gethostname()}-{os.getpid()}"
    async with _engine(config) as engine, AsyncExitStack() as stack:
        database = await open_database(settings.database_url, migrate=False)
        stack.push_async_callback(database.close)
        engine.share(StoredNotes(database))
        locks = await stack.enter_async_context(LeaseLocks.opened(database))
        operations = Operations(database, load_ring(settings.store_key))
        host = WorkerHost(engine, operations, locks, name=name)
        try:
            await _serve(settings, config, host, locks, stack)
        finally:
            host.closing = True
            await engine.close()
            await host.idle()


@asynccontextmanager
async def _engine(config: EngineConfig) -> AsyncIterator[PulumiEngine]:
    installed_plugin(config.home)
    engine = PulumiEngine(config, on_resident_problem=log_resident_engine)
    try:
        await engine.start(await_resident=False)
        yield engine
    finally:
        await engine.close()


async def _serve(
    settings: Settings, config: EngineConfig, host: WorkerHost, locks: LeaseLocks, stack: AsyncExitStack
) -> None:
    from provider.daemon.queue import celery_of  # noqa: PLC0415  most providers need no Celery, nor have it
    from provider.workers.consumer import consuming  # noqa: PLC0415

    async with asyncio.TaskGroup() as group:
        if settings.leader_lease:
            cluster = KubeCluster(settings.kubeconfig)
            stack.push_async_callback(cluster.aclose)
            host.term = _term(settings, config, host, cluster)
            group.create_task(host.term.follow(), name="term")
        else:
            await asyncio.to_thread(forget_term, config.data)
        group.create_task(locks.watch(), name="locks")
        tasks = consuming(celery_of(settings, config), host.attempt, places=config.workers, name=host.name)
        group.create_task(tasks, name="celery")
        _log.info("worker.ready", worker=host.name, places=config.workers)


def _term(settings: Settings, config: EngineConfig, host: WorkerHost, cluster: KubeCluster) -> FollowedTerm:
    return FollowedTerm(
        cluster,
        name=settings.leader_lease,
        namespace=settings.manifest_namespace,
        clock=SystemClock(),
        seconds=settings.leader_term,
        note=partial(write_term, config.data),
        idle=host.idle,
    )
