"""The engine's queue in the metrics, and whether the resident engine runs, in the metrics and the log."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import structlog

from provider.metrics import (
    ENGINE_BUSY,
    ENGINE_OLDEST,
    ENGINE_RESIDENT,
    ENGINE_WAITING,
    ENGINE_WORKERS,
)
from stacks.common import Priority
from stacks.engine import Load

__all__ = ["log_resident_engine", "show_load"]

_log = structlog.get_logger("lessor")


def show_load(load: Callable[[], Load]) -> None:
    """Make the gauges read `load` whenever they are collected. The gauges show one engine: the last one given."""
    ENGINE_BUSY.set_function(lambda: load().busy)
    ENGINE_WORKERS.set_function(lambda: load().workers)
    ENGINE_OLDEST.set_function(lambda: load().oldest_s)
    for kind in Priority:
        ENGINE_WAITING.labels(kind.value).set_function(partial(_waiting, load, kind))


def log_resident_engine(problem: str) -> None:
    """Report whether the resident engine runs the operations. `problem`: why it does not, empty when it does. Command
    lines are slower and need more memory, and succeed all the same.
    """
    ENGINE_RESIDENT.set(not problem)
    if problem:
        _log.warning("engine.not_resident", reason=problem, effect="each operation starts a Pulumi command line")
    else:
        _log.info("engine.resident")


def _waiting(load: Callable[[], Load], kind: Priority) -> float:
    return load().waiting[kind]
