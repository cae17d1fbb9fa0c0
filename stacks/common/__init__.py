"""Settings, wire format, results and errors that the daemon, the workers and the command line share.

Other packages may import the names below. Importing them imports no Pulumi.
"""

from __future__ import annotations

from stacks.common.causes import cause_of
from stacks.common.config import PROJECT, EngineConfig
from stacks.common.errors import DataInUse, EngineError, WorkerLost
from stacks.common.fences import close_path, forbid_dumps, open_paths
from stacks.common.files import hold, write_private
from stacks.common.keyed_locks import KeyedLocks
from stacks.common.kubeconfig import kubeconfig_files, read_kubeconfig
from stacks.common.listeners import fence_problem
from stacks.common.masking import mask, mask_result
from stacks.common.notes import StackNote, StackNotes
from stacks.common.plugin import installed_plugin
from stacks.common.priority import Priority
from stacks.common.processes import command_name, environment, other_pids, parent, survivors
from stacks.common.results import Durations, FailureCause, Operation, PropertyChange, ResourceChange, StackResult
from stacks.common.scratch_folders import scratch
from stacks.common.stack_settings import write_settings
from stacks.common.term import forget_term, refuse_after_term, term_is_over, write_term
from stacks.common.tracebacks import exception_text, plain_traceback, use_plain_tracebacks
from stacks.common.wire import Task

__all__ = [
    "PROJECT",
    "DataInUse",
    "Durations",
    "EngineConfig",
    "EngineError",
    "FailureCause",
    "KeyedLocks",
    "Operation",
    "Priority",
    "PropertyChange",
    "ResourceChange",
    "StackNote",
    "StackNotes",
    "StackResult",
    "Task",
    "WorkerLost",
    "cause_of",
    "close_path",
    "command_name",
    "environment",
    "exception_text",
    "fence_problem",
    "forbid_dumps",
    "forget_term",
    "hold",
    "installed_plugin",
    "kubeconfig_files",
    "mask",
    "mask_result",
    "open_paths",
    "other_pids",
    "parent",
    "plain_traceback",
    "read_kubeconfig",
    "refuse_after_term",
    "scratch",
    "survivors",
    "term_is_over",
    "use_plain_tracebacks",
    "write_private",
    "write_settings",
    "write_term",
]
