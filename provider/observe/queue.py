"""The engine's queue in the metrics, read whenever they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from provider.observe.metrics import ENGINE_BUSY, ENGINE_OLDEST, ENGINE_WAITING, ENGINE_WORKERS
from stacks.engine.pool import Load
from stacks.priority import Priority

__all__ = ["show_load"]


def show_load(load: Callable[[], Load]) -> None:
    """Let the gauges say what `load` says at that moment; the engine that was shown last is the one that is seen."""
    ENGINE_BUSY.set_function(lambda: load().busy)
    ENGINE_WORKERS.set_function(lambda: load().workers)
    ENGINE_OLDEST.set_function(lambda: load().oldest_s)
    for kind in Priority:
        ENGINE_WAITING.labels(kind.value).set_function(partial(_waiting, load, kind))


def _waiting(load: Callable[[], Load], kind: Priority) -> float:
    return load().waiting[kind]
