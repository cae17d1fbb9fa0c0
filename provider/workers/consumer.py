"""Celery's side of a worker: tasks are taken in threads, and each waits for the event loop that does the work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

import structlog
from celery import Celery, signals  # type: ignore[import-untyped]
from celery.worker import WorkController, state  # type: ignore[import-untyped]

from provider.workers.bell import TASK

__all__ = ["consuming"]

_END_S = 5.0
_log = structlog.get_logger("lessor")
_Attempt = Callable[[str, int], Coroutine[Any, Any, None]]


async def consuming(app: Celery, attempt: _Attempt, *, places: int, name: str) -> None:
    """Take tasks until cancelled, `places` at once. `attempt` runs in the calling event loop and must not raise."""
    loop = asyncio.get_running_loop()

    @app.task(name=TASK)  # type: ignore[untyped-decorator]
    def reconcile(stack: object, term: object) -> None:
        """Anybody who can write to Redis can ring: what is no stack and no term is ignored."""
        if not isinstance(stack, str) or not isinstance(term, int) or not stack or len(stack) > 63:
            _log.warning("queue.foreign_task")
            return
        with suppress(CancelledError):
            asyncio.run_coroutine_threadsafe(attempt(stack, term), loop).result()

    signals.setup_logging.connect(_keep_logging, weak=False)
    controller = WorkController(
        app=app, pool="threads", concurrency=places, hostname=name, loglevel="WARNING",
        without_heartbeat=True, without_mingle=True, without_gossip=True,
    )  # fmt: skip
    ended = asyncio.Event()
    thread = threading.Thread(target=_serve, args=(controller, loop, ended), name="celery", daemon=True)
    thread.start()
    try:
        await ended.wait()
        raise RuntimeError("Celery's consumer has ended; the log says why")
    finally:
        state.should_stop = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await ended.wait()


def _serve(controller: Any, loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    try:
        controller.start()
    except (SystemExit, KeyboardInterrupt):
        pass
    except Exception:
        _log.exception("queue.consumer_failed")
    finally:
        with suppress(RuntimeError):  # the loop may be closed by now
            loop.call_soon_threadsafe(ended.set)


def _keep_logging(**_: object) -> None:
    """A receiver of this signal keeps Celery from changing the log."""
