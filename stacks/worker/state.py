"""The file backend's folder of one stack: recovery after a killed run, and its history.

Use it only where no operation of the stack runs: the daemon allows one at a time and one engine for each data folder.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from stacks.common.config import PROJECT, EngineConfig
from stacks.common.errors import OperationRefused
from stacks.common.files import write_private
from stacks.common.processes import LOCKING, alive, command_name, end, survivors
from stacks.common.stack_settings import write_settings
from stacks.worker.init_errors import hide_quotes

__all__ = ["compact", "doubt", "doubted", "prune_history", "recover", "trust"]


def recover(config: EngineConfig, stack: str) -> list[str]:
    """Make the stack usable after any crash; returns what was done, as texts. Raises `OperationRefused`.

    A lock of a dead run is removed, processes of that run are ended, and the backup replaces an unreadable checkpoint.
    Whether a pending operation happened is unknown: objects in creation are added to the state as if they exist, and
    the state is `doubted` until the cluster was asked.
    """
    for metadata in (config.folder(stack) / ".pulumi").glob("**/*.attrs"):
        metadata.unlink()  # of a backend URL without metadata=skip: useless, and an empty one makes its file unreadable
    done = [*_unlock(config, stack), *_repair(config, stack), *_restore_settings(config, stack)]
    hide_quotes(config.folder(stack) / ".pulumi")
    if config.begun_file(stack).exists():
        doubt(config, stack)
        done.append("an update was cut off: the next operation reads from the cluster what it did")
    return done


def doubted(config: EngineConfig, stack: str) -> bool:
    """Whether the state may differ from the cluster, so that the next operation has to refresh it first."""
    return config.doubt_file(stack).exists()


def doubt(config: EngineConfig, stack: str) -> None:
    """Note that the cluster may hold objects that the state does not. An empty state has nothing to ask about."""
    state = config.state_file(stack)
    latest = ((_checkpoint(state) or {}).get("checkpoint") or {}).get("latest") or {}
    if config.backend or latest.get("resources"):
        state.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        config.doubt_file(stack).touch()


def trust(config: EngineConfig, stack: str) -> None:
    """Note that every object of the state was refreshed."""
    config.doubt_file(stack).unlink(missing_ok=True)


def _unlock(config: EngineConfig, stack: str) -> list[str]:
    locks = sorted((config.folder(stack) / ".pulumi" / "locks").glob("**/*.json"))
    # the end of a worker ends its processes too: only a run that left a trace can have left a process
    traces = bool(locks or config.backend or config.begun_file(stack).exists())
    left = survivors(config.data, stack) if traces else []
    for lock in locks:
        owner = _owner(lock)
        # process ids are used again: an owner counts only if it is a program that takes such locks
        if owner and owner not in left and alive(owner) and command_name(owner) in LOCKING:
            raise OperationRefused(
                f"stack {stack} is locked by process {owner}, which this engine did not start; wait or end it"
            )
    if left:
        end(left)
    for lock in locks:
        lock.unlink(missing_ok=True)
    done = [f"removed {len(locks)} lock(s) of a run that did not end in order"] if locks else []
    return [*done, *([f"ended {len(left)} process(es) of that run"] if left else [])]


def _owner(lock: Path) -> int:
    """The process id in a lock file; 0 if it cannot be read."""
    try:
        return int(json.loads(lock.read_text())["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _repair(config: EngineConfig, stack: str) -> list[str]:
    state = config.state_file(stack)
    if not state.exists():
        return []
    document, done = _coherent(_checkpoint(state)), []
    if document is None:
        backup = state.with_name(state.name + ".bak")
        document = _coherent(_checkpoint(backup)) if backup.exists() else None
        done.append(
            "the checkpoint was unusable: " + ("its backup replaces it" if document else "an empty one replaces it")
        )
        if document is None:
            state.unlink()
            return done
    latest: dict[str, Any] = document["checkpoint"].get("latest") or {}
    pending = latest.pop("pending_operations", None) or []
    if pending:
        config.doubt_file(stack).touch()
        _adopt(latest, pending)
        done.append(f"{len(pending)} pending operation(s) will be checked in the cluster")
    if done:
        write_private(state, json.dumps(document))
    return done


def _coherent(document: dict[str, Any] | None) -> dict[str, Any] | None:
    """The document; None for a state that refers to resources that it does not hold (a provider, a parent), since every
    command would refuse it.
    """
    known: set[str] = set()
    latest = (document or {"checkpoint": {}})["checkpoint"].get("latest") or {}
    try:
        for resource in latest.get("resources") or ():
            if not _needs(resource) <= known:
                return None
            known.add(resource["urn"])
    except (KeyError, TypeError, AttributeError):
        return None
    return document


def _restore_settings(config: EngineConfig, stack: str) -> list[str]:
    """Write a lost settings file again from the state, which knows who encrypted it."""
    settings = config.settings_file(stack)
    if settings.exists() or (document := _checkpoint(config.state_file(stack))) is None:
        return []
    if not write_settings(config, stack, document["checkpoint"].get("latest") or {}):
        return []
    return ["the stack's settings were missing and were restored from its state"]


def _adopt(latest: dict[str, Any], pending: list[dict[str, Any]]) -> None:
    """Add objects in creation to the state: a refresh then reads them, or drops those that were never made."""
    known = {item["urn"] for item in latest.get("resources") or ()}
    for operation in pending:
        resource = operation.get("resource") or {}
        identity = _identity(resource)
        if (
            operation.get("type") == "creating"
            and identity
            and resource["urn"] not in known
            and _needs(resource) <= known
        ):
            latest.setdefault("resources", []).append({**resource, "id": identity})
            known.add(resource["urn"])


def _needs(resource: dict[str, Any]) -> set[str]:
    """URNs that a state must hold before this resource; with one missing the whole state would be refused."""
    provider = str(resource.get("provider", "")).rpartition("::")[0]
    several = [urn for urns in (resource.get("propertyDependencies") or {}).values() for urn in urns or ()]
    named = (resource.get("parent"), resource.get("deletedWith"), provider)
    return {urn for urn in (*named, *several, *(resource.get("dependencies") or ())) if urn}


def _identity(resource: dict[str, Any]) -> str:
    """The plugin's id of an object: namespace/name, or the name alone; empty for a resource that is no Kubernetes
    object.
    """
    metadata = (resource.get("inputs") or {}).get("metadata") or {}
    if not str(resource.get("type", "")).startswith("kubernetes:") or not metadata.get("name"):
        return ""
    return "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))


def _checkpoint(path: Path) -> dict[str, Any] | None:
    """The document; None if the file is none (half written, empty, something else)."""
    try:
        document = json.loads(path.read_bytes())
        return document if isinstance(document["checkpoint"], dict) else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def compact(config: EngineConfig, stack: str) -> None:
    """After an orderly end: remove the copy of the earlier state once the new one is surely on the disk."""
    state = config.state_file(stack)
    backup = state.with_name(state.name + ".bak")
    if backup.exists() and _checkpoint(state) is not None:
        with state.open("rb") as file:
            os.fsync(file.fileno())
        backup.unlink(missing_ok=True)


def prune_history(config: EngineConfig, stack: str) -> None:
    """Keep the records of the newest `config.history` updates, and none of the whole checkpoints beside them."""
    hide_quotes(config.folder(stack) / ".pulumi")
    folder = config.folder(stack) / ".pulumi" / "history" / PROJECT / stack
    for file in folder.glob("*.checkpoint.json"):
        file.unlink(missing_ok=True)
    # names end in nanoseconds since 1970, all of one length: the order of texts is that of time
    for record in sorted(folder.glob("*.history.json"))[: -config.history]:
        record.unlink(missing_ok=True)
