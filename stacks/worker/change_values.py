"""Old and new values of changed properties where the engine only reports `[secret]`.

The plugin makes a whole list secret when one of its items is (the containers, for a variable's value), so that events
hold `[secret]` for an image too. The objects that were applied last are kept beside the state with their secret values
hidden, and the values of a change are read from them and from the new version's objects.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from components.lease import lease_objects
from components.registration import type_token
from components.secrets import seal
from lease.spec import LeaseSpec
from stacks.common.config import EngineConfig
from stacks.common.files import write_private
from stacks.common.masking import mask_values
from stacks.common.results import PropertyChange, ResourceChange
from stacks.worker.events import SHOWN, value_at, value_text

__all__ = ["explain", "keep_shown"]


def keep_shown(config: EngineConfig, spec: LeaseSpec) -> None:
    """Keep the objects of `spec`, which the cluster has now."""
    write_private(config.shown_file(spec.namespace), json.dumps(_visible_objects(spec)), durable=False)


def explain(config: EngineConfig, spec: LeaseSpec, changes: tuple[ResourceChange, ...]) -> tuple[ResourceChange, ...]:
    """`changes` with the values that are no secret, as far as they are known. Call it before `keep_shown`."""
    if not any(_hidden(item) for change in changes for item in change.properties):
        return changes
    before, after = _last_objects(config, spec.namespace), _visible_objects(spec)
    return tuple(_explained(change, before, after) for change in changes)


def _explained(change: ResourceChange, before: Mapping[str, Any], after: Mapping[str, Any]) -> ResourceChange:
    old, new = (objects.get(_key(change.type, change.name)) for objects in (before, after))
    if not isinstance(old, dict) or not isinstance(new, dict):
        return change
    return replace(change, properties=tuple(_with_values(item, old, new) for item in change.properties))


def _with_values(item: PropertyChange, old: Any, new: Any) -> PropertyChange:
    if not _hidden(item):
        return item
    was, becomes = value_at(old, item.path), value_at(new, item.path)
    return replace(
        item,
        old=value_text(was) if item.old == SHOWN and was is not None else item.old,
        new=value_text(becomes) if item.new == SHOWN and becomes is not None else item.new,
    )


def _hidden(item: PropertyChange) -> bool:
    return SHOWN in (item.old, item.new)


def _visible_objects(spec: LeaseSpec) -> dict[str, Any]:
    """Objects by type and name. A tenant may repeat a secret in a place that is no secret, such as a command: it is
    hidden there too.
    """
    return {
        _key(type_token(item["apiVersion"], item["kind"]), item["metadata"]["name"]): mask_values(
            seal(item, lambda _: SHOWN), spec
        )
        for item in lease_objects(spec)
    }


def _key(type_: str, name: str) -> str:
    return f"{type_} {name}"


def _last_objects(config: EngineConfig, stack: str) -> dict[str, Any]:
    try:
        document = json.loads(config.shown_file(stack).read_bytes())
        return document if isinstance(document, dict) else {}
    except (OSError, ValueError, RecursionError):
        return {}
