"""Errors of the engine itself. A failure of a lease is a `StackResult` with `ok` false."""

from __future__ import annotations

__all__ = ["DataInUse", "EngineError", "NeverBegun", "OperationRefused", "WorkerLost"]


class EngineError(Exception):
    """Base of the errors of this package."""


class DataInUse(EngineError):
    """Another living engine holds the data folder; two engines would conflict over locks and state."""


class WorkerLost(EngineError):
    """A worker process ended in the middle of an operation."""


class NeverBegun(WorkerLost):
    """The worker ended before it took the task, so that another worker may have the task."""


class OperationRefused(EngineError):
    """The operation must not run now; nothing was registered. The text is for the operator."""
