"""The engine's queue and its shared plugin in the metrics, and in the log what is to be known of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import structlog

from provider.metrics import (
    ENGINE_BUSY,
    ENGINE_OLDEST,
    ENGINE_PLUGIN_SHARED,
    ENGINE_WAITING,
    ENGINE_WORKERS,
)
from stacks.common import Priority
from stacks.engine import Load

__all__ = ["show_load", "tell_plugin"]

_log = structlog.get_logger("lessor")


def show_load(load: Callable[[], Load]) -> None:
    """Let the gauges say what `load` says at that moment; the engine that was shown last is the one that is seen."""
    ENGINE_BUSY.set_function(lambda: load().busy)
    ENGINE_WORKERS.set_function(lambda: load().workers)
    ENGINE_OLDEST.set_function(lambda: load().oldest_s)
    for kind in Priority:
        ENGINE_WAITING.labels(kind.value).set_function(partial(_waiting, load, kind))


def tell_plugin(problem: str) -> None:
    """Operations share a plugin, or why they do not: slower and larger, but nothing else is wrong with them."""
    ENGINE_PLUGIN_SHARED.set(not problem)
    if problem:
        _log.warning("engine.plugin.not_shared", reason=problem, hint="each operation starts a plugin of its own")
    else:
        _log.info("engine.plugin.shared")


def _waiting(load: Callable[[], Load], kind: Priority) -> float:
    return load().waiting[kind]
