"""The bell: Celery tasks on Redis say that there is something to do for a stack. They prove nothing and carry nothing
else; what is to be done is a row (`operations`).
"""

from __future__ import annotations

import asyncio
import hashlib

from celery import Celery  # type: ignore[import-untyped]
from kombu.exceptions import OperationalError

__all__ = ["TASK", "Bell", "celery_app"]

TASK = "lessor.reconcile"
_SOCKET_S = 10.0


def celery_app(url: str, *, backend: str, longest_s: float) -> Celery:
    """The application of leader and workers. `backend`: the URL of the states, which tells providers on one Redis
    apart. `longest_s`: seconds that no operation exceeds.
    """
    app = Celery("lessor", broker=url, set_as_current=False)
    socket = {"socket_timeout": _SOCKET_S, "socket_connect_timeout": _SOCKET_S, "health_check_interval": 15}
    app.conf.update(
        task_default_queue=f"lessor-{hashlib.sha256(backend.encode()).hexdigest()[:12]}",
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_acks_on_failure_or_timeout=True,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options=socket | {"visibility_timeout": longest_s + 300},
        accept_content=["json"],
    )
    return app


class Bell:
    """The leader's side."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    async def ring(self, stack: str, term: int) -> str:
        """Tell the workers. Returns what went wrong, empty for nothing; the leader rings again later."""
        try:
            await asyncio.to_thread(self._app.send_task, TASK, [stack, term], retry=False)
        except (OperationalError, OSError) as error:
            return str(error) or type(error).__name__
        return ""
