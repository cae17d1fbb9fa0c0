"""What can go wrong with the engine itself. What goes wrong with a lease is a `StackResult` with `ok` false."""

from __future__ import annotations

__all__ = ["DataInUse", "EngineError", "NeverBegun", "NoManifest", "OperationRefused", "WorkerLost"]


class EngineError(Exception):
    """Root of everything the engine raises on purpose."""


class DataInUse(EngineError):
    """Another living engine holds the data folder; two would fight over locks and state."""


class WorkerLost(EngineError):
    """A worker process ended in the middle of an operation."""


class NeverBegun(WorkerLost):
    """It ended before it took the task: another worker may have it as if nothing had happened."""


class OperationRefused(EngineError):
    """The operation must not run now; nothing was registered. The text is for the operator."""


class NoManifest(EngineError):
    """An opened update was ended before it got a spec: in a program, so that it never returns without one."""
