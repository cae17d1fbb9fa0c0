"""What an update was about to make, noted before it runs: the state is written at its end only.

With skipped checkpoints a killed run leaves the state as it was before (toolchain.md §3, killed runs 3). What the run
may have changed is then asked of the cluster (a refresh), and what it may have made and nobody wants any more is
deleted: so a version that was given up in the middle leaves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from components.lease import lease_objects
from lease.spec import LeaseSpec
from stacks.common.config import EngineConfig
from stacks.common.files import write_private

__all__ = ["Made", "begin", "begun", "finish", "left_over"]

Made = tuple[str, str, str]
"""apiVersion, kind and name of an object in the lease's namespace."""


def begin(config: EngineConfig, spec: LeaseSpec) -> None:
    """Note what `spec` makes, with what runs before it that were killed were to make."""
    wanted = begun(config, spec.namespace) | _objects(spec)
    write_private(config.begun_file(spec.namespace), json.dumps(sorted(wanted)), durable=False)


def begun(config: EngineConfig, stack: str) -> frozenset[Made]:
    """Objects of runs whose end nobody saw; empty after an orderly one."""
    try:
        return frozenset(_made(item) for item in json.loads(config.begun_file(stack).read_bytes()))
    except (OSError, ValueError, TypeError):
        return frozenset()


def finish(config: EngineConfig, stack: str) -> None:
    """The state says what the cluster has."""
    config.begun_file(stack).unlink(missing_ok=True)


def left_over(noted: Iterable[Made], spec: LeaseSpec) -> list[Made]:
    """What was begun and is no part of `spec`."""
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
