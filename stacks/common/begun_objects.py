"""The objects that an update is about to make, noted before it runs: the state is written only at its end.

With skipped checkpoints a killed run leaves the state as it was before (toolchain.md §3, killed runs 3). A refresh then
reads from the cluster what the run may have changed, and objects that it may have made and that are no longer wanted
are deleted. So a version that was given up half-way leaves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from components.lease import lease_objects
from lease.spec import LeaseSpec
from stacks.common.config import EngineConfig
from stacks.common.files import write_private

__all__ = ["Made", "begin", "begun", "finish", "left_over", "names_of", "note_of"]

Made = tuple[str, str, str]
"""apiVersion, kind and name of an object in the lease's namespace."""


def begin(config: EngineConfig, spec: LeaseSpec) -> None:
    """Note the objects of `spec`, and those of earlier runs that were killed."""
    write_private(config.begun_file(spec.namespace), note_of(begun(config, spec.namespace), spec), durable=False)


def note_of(earlier: Iterable[Made], spec: LeaseSpec) -> str:
    """The text of the note: the objects of `spec`, and `earlier` ones."""
    return json.dumps(sorted(set(earlier) | _objects(spec)))


def begun(config: EngineConfig, stack: str) -> frozenset[Made]:
    """Objects of runs whose end was not seen; empty after an orderly end."""
    try:
        return names_of(config.begun_file(stack).read_text())
    except (OSError, ValueError):
        return frozenset()


def names_of(note: str) -> frozenset[Made]:
    """The objects in the text of a note; none in a text that is no note."""
    try:
        return frozenset(_made(item) for item in json.loads(note))
    except (ValueError, TypeError, RecursionError):
        return frozenset()


def finish(config: EngineConfig, stack: str) -> None:
    """Remove the note: the state holds what the cluster has."""
    config.begun_file(stack).unlink(missing_ok=True)


def left_over(noted: Iterable[Made], spec: LeaseSpec) -> list[Made]:
    """Noted objects that are no part of `spec`."""
    return sorted(set(noted) - _objects(spec))


def _objects(spec: LeaseSpec) -> set[Made]:
    return {
        (item["apiVersion"], item["kind"], item["metadata"]["name"])
        for item in lease_objects(spec)
        if item["metadata"].get("namespace") == spec.namespace
    }


def _made(item: Any) -> Made:
    version, kind, name = item
    return str(version), str(kind), str(name)
