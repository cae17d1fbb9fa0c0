"""A preview of one stack beside a running provider.

It works on a copy of the stack's state, so that it locks and writes nothing of the provider and waits for nothing.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lease.spec import LeaseSpec
from provider.cli.next_version import NoDiff
from stacks.common import StackResult, scratch
from stacks.engine import EngineConfig, PulumiEngine

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
    state = config.state_file(spec.namespace)
    if not state.exists() or not config.key_file.exists():
        raise NoDiff(
            f"there is no stack {spec.namespace} below {config.data}: is AP_HOME the provider's? "
            "--objects compares without one"
        )
    with scratch("lessor-diff-") as folder:
        # one preview is not worth the start of a resident engine
        beside = config.model_copy(update={"data": folder / "engine", "workers": 1, "engine": "stock"})
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
