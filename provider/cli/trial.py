"""A preview of one stack beside a running provider.

It works on a copy of the stack's state, so that it locks and writes nothing of the provider and waits for nothing.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lease.spec import LeaseSpec
from provider.cli.next_version import NoDiff
from stacks.common import PROJECT, StackResult, scratch, write_settings
from stacks.engine import EngineConfig, PulumiEngine, exported_state

__all__ = ["Trial", "preview_beside"]

_READS = 10
_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class Trial:
    """`state`: the deployment in the stack's checkpoint before the preview."""

    result: StackResult
    state: Mapping[str, Any]


async def preview_beside(config: EngineConfig, spec: LeaseSpec) -> Trial:
    """The preview of `spec` by the engine of `config`. Raises `NoDiff` when the engine has no such stack."""
    if not config.key_file.exists() or not (config.backend or config.state_file(spec.namespace).exists()):
        raise NoDiff(_absent(config, spec.namespace))
    with scratch("lessor-diff-") as folder:
        # one preview is not worth the start of a resident engine
        beside = config.model_copy(update={"data": folder / "engine", "workers": 1, "engine": "stock"})
        if config.backend:
            beside = beside.model_copy(update={"backend": f"file://{folder / 'state'}", "key": config.key_file})
            document = await asyncio.to_thread(_copy_of_backend, config, beside, spec.namespace)
        else:
            document = _copy(config, beside, spec.namespace)
        engine = PulumiEngine(beside)
        try:
            result = await engine.preview(spec)
        finally:
            await engine.close()
    return Trial(result, (document.get("checkpoint") or {}).get("latest") or {})


def _copy(config: EngineConfig, beside: EngineConfig, stack: str) -> dict[str, Any]:
    """Copy the stack's settings and checkpoint, without locks and history, and return the checkpoint's document.

    The key is linked, not copied.
    """
    folder = beside.folder(stack)
    beside.state_file(stack).parent.mkdir(mode=0o700, parents=True)
    beside.key_file.symlink_to(config.key_file.absolute())
    for name in (f"Pulumi.{stack}.yaml", ".pulumi/meta.yaml"):
        if (config.folder(stack) / name).exists():
            shutil.copyfile(config.folder(stack) / name, folder / name)
    document = _checkpoint(config.state_file(stack))
    # the state holds the path of the kubeconfig; another path would show as a change of the lease
    text = json.dumps(document).replace(
        json.dumps(str(config.kubeconfig_copy.absolute())), json.dumps(str(beside.kubeconfig_copy))
    )
    beside.state_file(stack).write_text(text)
    return document


def _absent(config: EngineConfig, stack: str) -> str:
    where = "in LESSOR_STACK_BACKEND" if config.backend else f"below {config.data}: is AP_HOME the provider's?"
    return f"there is no stack {stack} {where}, or no key {config.key_file}; --objects compares without one"


def _copy_of_backend(config: EngineConfig, beside: EngineConfig, stack: str) -> dict[str, Any]:
    """Write the stack's state into a folder backend of its own, and return the checkpoint's document. Such a state
    names no kubeconfig, as in the backend it comes from. Raises `NoDiff` and `EngineError`.
    """
    latest = exported_state(config, stack)
    if latest is None:
        raise NoDiff(_absent(config, stack))
    document = {"version": 3, "checkpoint": {"stack": f"organization/{PROJECT}/{stack}", "latest": latest}}
    folder = Path(beside.backend.removeprefix("file://")) / ".pulumi"
    states = folder / "stacks" / PROJECT
    states.mkdir(mode=0o700, parents=True)
    (folder / "meta.yaml").write_text("version: 1\n")
    (states / f"{stack}.json").write_text(json.dumps(document))
    beside.folder(stack).mkdir(mode=0o700, parents=True)
    if not write_settings(beside, stack, latest):
        raise NoDiff(f"the state of {stack} does not say who encrypts its secrets; --objects compares without it")
    return document


def _checkpoint(path: Path) -> dict[str, Any]:
    """The file's document, tried repeatedly since a running provider may be replacing it. Raises `NoDiff` when every
    try fails.
    """
    for _ in range(_READS):
        try:
            document = json.loads(path.read_bytes())
            if isinstance(document["checkpoint"], dict):
                return dict(document)
        except (OSError, ValueError, LookupError, TypeError):
            time.sleep(_PAUSE_S)
    raise NoDiff(f"the stack's state {path} cannot be read; the provider repairs it at its next update")
