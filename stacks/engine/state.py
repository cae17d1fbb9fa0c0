"""The file backend's folder of one stack: what a killed run leaves in it, and its history.

Used only where no operation of the stack runs: the daemon allows one at a time and one engine a data folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stacks.engine.config import PROJECT, EngineConfig
from stacks.engine.errors import OperationRefused
from stacks.engine.files import write_private
from stacks.engine.processes import alive, command_name, end, survivors

__all__ = ["prune_history", "recover"]


def recover(config: EngineConfig, stack: str) -> list[str]:
    """Make the stack usable after any crash; returns what was done, in words. Raises `OperationRefused`.

    A lock left by a dead run is removed, processes of that run are ended, pending operations are forgotten (the next
    `up` takes over objects that exist: the plugin creates by server-side apply), an unreadable checkpoint gives way to
    its backup.
    """
    return [*_unlock(config, stack), *_repair(config.state_file(stack))]


def _unlock(config: EngineConfig, stack: str) -> list[str]:
    locks = sorted((config.folder(stack) / ".pulumi" / "locks").glob("**/*.json"))
    left = survivors(config.data, stack)
    for lock in locks:
        owner = _owner(lock)
        # process ids are used again: an owner counts only if it is a Pulumi command line
        if owner and owner not in left and alive(owner) and command_name(owner) == "pulumi":
            raise OperationRefused(
                f"stack {stack} is locked by process {owner}, which is not ours; wait for it or end it"
            )
    if left:
        end(left)
    for lock in locks:
        lock.unlink(missing_ok=True)
    done = [f"removed {len(locks)} lock(s) of a run that ended without its word"] if locks else []
    return [*done, *([f"ended {len(left)} process(es) of that run"] if left else [])]


def _owner(lock: Path) -> int:
    """Process id in a lock file, 0 if it cannot be read."""
    try:
        return int(json.loads(lock.read_text())["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _repair(state: Path) -> list[str]:
    if not state.exists():
        return []
    document, done = _checkpoint(state), []
    if document is None:
        backup = state.with_name(state.name + ".bak")
        document = _checkpoint(backup) if backup.exists() else None
        done.append("the checkpoint was unreadable: " + ("its backup is used" if document else "it is made anew"))
        if document is None:
            state.unlink()
            return done
    latest: dict[str, Any] = document["checkpoint"].get("latest") or {}
    pending = latest.pop("pending_operations", None) or []
    if pending:
        done.append(f"forgot {len(pending)} pending operation(s)")
    if done:
        write_private(state, json.dumps(document))
    return done


def _checkpoint(path: Path) -> dict[str, Any] | None:
    """The document, None if it is not one (half written, empty, something else)."""
    try:
        document = json.loads(path.read_bytes())
        return document if isinstance(document["checkpoint"], dict) else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def prune_history(config: EngineConfig, stack: str) -> None:
    """Keep the newest `config.history` updates; each holds a whole checkpoint. Backups are not kept at all."""
    folder = config.folder(stack) / ".pulumi"
    names = (folder / "history" / PROJECT / stack).glob("*")
    updates: dict[str, list[Path]] = {}
    for file in names:
        updates.setdefault(file.name.partition(".")[0], []).append(file)
    # names end in nanoseconds since 1970, all of one length: the order of texts is that of time
    for update in sorted(updates)[: -config.history]:
        for file in updates[update]:
            file.unlink(missing_ok=True)
