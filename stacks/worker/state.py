"""The file backend's folder of one stack: what a killed run leaves in it, and its history.

Used only where no operation of the stack runs: the daemon allows one at a time and one engine a data folder.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import yaml

from stacks.common.config import PROJECT, EngineConfig
from stacks.common.errors import OperationRefused
from stacks.common.files import write_private
from stacks.common.processes import alive, command_name, end, survivors
from stacks.worker.refusals import hide_quotes

__all__ = ["compact", "doubt", "doubted", "prune_history", "recover", "settings_of", "trust"]


def settings_of(config: EngineConfig, stack: str) -> Path:
    """The stack's settings file: who encrypts its secrets."""
    return config.settings_file(stack)


def recover(config: EngineConfig, stack: str) -> list[str]:
    """Make the stack usable after any crash; returns what was done, in words. Raises `OperationRefused`.

    A lock left by a dead run is removed, processes of that run are ended, an unreadable checkpoint gives way to its
    backup. Nobody knows whether a pending operation has happened: objects in creation are taken into the state as if it
    had, and the state is `doubted` until the cluster was asked.
    """
    for metadata in (config.folder(stack) / ".pulumi").glob("**/*.attrs"):
        metadata.unlink()  # of a backend URL without metadata=skip: useless, and an empty one makes its file unreadable
    done = [*_unlock(config, stack), *_repair(config.state_file(stack)), *_restore_settings(config, stack)]
    hide_quotes(config.folder(stack) / ".pulumi")
    if config.begun_file(stack).exists():
        doubt(config, stack)
        done.append("an update was cut off: what it did is looked for in the cluster")
    return done


def doubted(config: EngineConfig, stack: str) -> bool:
    """Whether the state may say what the cluster does not: then the next operation has to refresh it first."""
    return _doubt(config.state_file(stack)).exists()


def doubt(config: EngineConfig, stack: str) -> None:
    """The cluster may hold what the state does not say. An empty state has nothing to be asked about."""
    state = config.state_file(stack)
    latest = ((_checkpoint(state) or {}).get("checkpoint") or {}).get("latest") or {}
    if config.backend or latest.get("resources"):
        state.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _doubt(state).touch()


def trust(config: EngineConfig, stack: str) -> None:
    """The state was refreshed, every object of it."""
    _doubt(config.state_file(stack)).unlink(missing_ok=True)


def _doubt(state: Path) -> Path:
    """A mark beside the state, not in it: it outlives a kill before or within the refresh."""
    return state.with_name(state.name + ".doubted")


def _unlock(config: EngineConfig, stack: str) -> list[str]:
    locks = sorted((config.folder(stack) / ".pulumi" / "locks").glob("**/*.json"))
    # whoever ends a worker ends what it ran too: only where a run left a trace is there anybody to look for
    traces = bool(locks or config.backend or config.begun_file(stack).exists())
    left = survivors(config.data, stack) if traces else []
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
    document, done = _coherent(_checkpoint(state)), []
    if document is None:
        backup = state.with_name(state.name + ".bak")
        document = _coherent(_checkpoint(backup)) if backup.exists() else None
        done.append("the checkpoint was unusable: " + ("its backup is used" if document else "it is made anew"))
        if document is None:
            state.unlink()
            return done
    latest: dict[str, Any] = document["checkpoint"].get("latest") or {}
    pending = latest.pop("pending_operations", None) or []
    if pending:
        _doubt(state).touch()
        _adopt(latest, pending)
        done.append(f"{len(pending)} pending operation(s) are looked for in the cluster")
    if done:
        write_private(state, json.dumps(document))
    return done


def _coherent(document: dict[str, Any] | None) -> dict[str, Any] | None:
    """None for a state that names what it does not hold (a provider, a parent): every command would refuse it."""
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
    """A lost settings file is made again from the state, which knows who encrypted it."""
    settings, document = settings_of(config, stack), _checkpoint(config.state_file(stack))
    if settings.exists() or document is None:
        return []
    told = ((document["checkpoint"].get("latest") or {}).get("secrets_providers") or {}).get("state") or {}
    names = {"salt": "encryptionsalt", "url": "secretsprovider", "encryptedkey": "encryptedkey"}
    restored = {names[key]: value for key, value in told.items() if key in names and value}
    if not restored:
        return []
    write_private(settings, yaml.safe_dump(restored))
    return ["the stack's settings were missing: taken from its state"]


def _adopt(latest: dict[str, Any], pending: list[dict[str, Any]]) -> None:
    """Take objects in creation into the state: a refresh then reads them, or drops those that were never made."""
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
    """URNs a state must have before this resource: with one missing it would be refused as a whole."""
    provider = str(resource.get("provider", "")).rpartition("::")[0]
    several = [urn for urns in (resource.get("propertyDependencies") or {}).values() for urn in urns or ()]
    named = (resource.get("parent"), resource.get("deletedWith"), provider)
    return {urn for urn in (*named, *several, *(resource.get("dependencies") or ())) if urn}


def _identity(resource: dict[str, Any]) -> str:
    """What the plugin calls an object: namespace/name, or the name alone; empty for what is no object of Kubernetes."""
    metadata = (resource.get("inputs") or {}).get("metadata") or {}
    if not str(resource.get("type", "")).startswith("kubernetes:") or not metadata.get("name"):
        return ""
    return "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))


def _checkpoint(path: Path) -> dict[str, Any] | None:
    """The document, None if it is not one (half written, empty, something else)."""
    try:
        document = json.loads(path.read_bytes())
        return document if isinstance(document["checkpoint"], dict) else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def compact(config: EngineConfig, stack: str) -> None:
    """After an orderly end: the copy of the state before it goes, once the new one is surely on the disk."""
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
