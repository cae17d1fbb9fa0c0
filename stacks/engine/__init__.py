"""The engine: creates, previews, updates, refreshes and destroys lease stacks in worker processes.

The daemon holds a `PulumiEngine`, which never imports Pulumi. `python -m stacks.worker` is the program of a worker,
with the Automation API, the components and the policies. Between them run length-prefixed JSON frames over pipes.
"""

from __future__ import annotations

from stacks.common import DataInUse, EngineConfig, EngineError, WorkerLost
from stacks.engine.backend_state import exported_state
from stacks.engine.engine import PulumiEngine
from stacks.engine.imported_state import importing
from stacks.engine.load import Load
from stacks.engine.places import Places
from stacks.engine.recorded_state import recorded_objects, recorded_stacks

__all__ = [
    "DataInUse",
    "EngineConfig",
    "EngineError",
    "Load",
    "Places",
    "PulumiEngine",
    "WorkerLost",
    "exported_state",
    "importing",
    "recorded_objects",
    "recorded_stacks",
]
