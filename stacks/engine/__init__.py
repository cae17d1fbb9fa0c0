"""The engine: creates, previews, updates, refreshes and destroys lease stacks in worker processes.

`PulumiEngine` is what the daemon holds; it never imports Pulumi. `stacks.engine.worker` is the program of a worker: the
Automation API, the components and the policies live there. Between them run length-prefixed JSON frames over pipes.
"""

from __future__ import annotations

from stacks.engine.config import EngineConfig
from stacks.engine.engine import PulumiEngine
from stacks.engine.errors import DataInUse, EngineError, WorkerLost

__all__ = ["DataInUse", "EngineConfig", "EngineError", "PulumiEngine", "WorkerLost"]
