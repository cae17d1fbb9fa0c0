"""The queue of stack operations, as the leader and the workers open it: what it needs, and its two sides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from provider.daemon.leader import Leading
from provider.errors import SettingsError
from provider.settings import Settings
from provider.store import Database
from provider.store.sealing import KeyRing
from provider.workers.lease_locks import locked_stacks
from provider.workers.operations import Operations
from provider.workers.queued_engine import QueuedEngine
from stacks.common import EngineConfig
from stacks.engine import PulumiEngine

if TYPE_CHECKING:
    from celery import Celery  # type: ignore[import-untyped]

__all__ = ["celery_of", "queue_problem", "queued_engine"]


def queue_problem(settings: Settings) -> str:
    """What LESSOR_STACK_QUEUE needs and lacks, with the remedy; empty for nothing."""
    if find_spec("celery") is None:
        return "LESSOR_STACK_QUEUE: Celery is missing: pip install 'lessor[worker]'"
    needed = {
        "LESSOR_STORE_URL (PostgreSQL)": settings.database_url.startswith("postgresql"),
        "LESSOR_STORE_KEY_FILE": settings.store_key_file is not None,
        "LESSOR_STACK_BACKEND": bool(settings.stack_backend),
        "LESSOR_STACK_KEY_FILE": settings.stack_key_file is not None or settings.stack_secrets == "vault",
    }
    if missing := ", ".join(name for name, there in needed.items() if not there):
        return f"LESSOR_STACK_QUEUE needs {missing}, the same for the leader and all workers"
    return ""


def celery_of(settings: Settings, config: EngineConfig) -> Celery:
    """The Celery application of these settings."""
    from provider.workers.bell import celery_app  # noqa: PLC0415  most providers need no Celery, nor have it

    longest = 2 * (config.operation_seconds + config.interrupt_seconds)  # a refresh may come before the operation
    return celery_app(settings.stack_queue.get_secret_value(), backend=config.backend, longest_s=longest)


async def queued_engine(
    settings: Settings,
    local: PulumiEngine,
    config: EngineConfig,
    *,
    database: Database,
    ring: KeyRing,
    leader: Leading | None,
    stack: AsyncExitStack,
) -> QueuedEngine:
    """The leader's side, running until `stack` ends. Raises `SettingsError`."""
    if problem := queue_problem(settings):
        raise SettingsError(problem)
    from provider.workers.bell import Bell  # noqa: PLC0415  see above

    leadership = leader.leadership if leader is not None else None
    term: Callable[[], int] = (lambda: leadership.term) if leadership is not None else (lambda: 0)
    over: Callable[[], str] = (lambda: leadership.term_problem) if leadership is not None else (lambda: "")
    engine = QueuedEngine(
        local,
        Operations(database, ring),
        Bell(celery_of(settings, config)),
        config=config,
        places=settings.queue_places,
        term=term,
        locked=partial(locked_stacks, database),
        over=over,
    )
    running = asyncio.create_task(engine.run(), name="queue")
    stack.push_async_callback(_end, running)
    return engine


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
