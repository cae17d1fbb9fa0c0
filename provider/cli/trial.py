"""A preview beside a running provider: over a copy of one stack's state, so that nothing of the provider's is locked,
written or waited for.
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
    """What the engine of `config` would do for `spec`. Raises `NoDiff` when it has no such stack."""
    state = config.state_file(spec.namespace)
    if not state.exists() or not config.key_file.exists():
        raise NoDiff(
            f"there is no stack {spec.namespace} below {config.data}: is AP_HOME the provider's? "
            "--objects compares without one"
        )
    with scratch("lessor-diff-") as folder:
        apart = config.model_copy(update={"data": folder / "engine", "workers": 1})
        document = _copy(config, apart, spec.namespace)
        engine = PulumiEngine(apart, shared_plugin=False)
        try:
            result = await engine.preview(spec)
        finally:
            await engine.close()
    return Trial(result, (document.get("checkpoint") or {}).get("latest") or {})


def _copy(config: EngineConfig, apart: EngineConfig, stack: str) -> dict[str, Any]:
    """The stack's settings and checkpoint, no lock and no history; the key is not copied but pointed at."""
    folder = apart.folder(stack)
    apart.state_file(stack).parent.mkdir(mode=0o700, parents=True)
    apart.key_file.symlink_to(config.key_file.absolute())
    for name in (f"Pulumi.{stack}.yaml", ".pulumi/meta.yaml"):
        if (config.folder(stack) / name).exists():
            shutil.copyfile(config.folder(stack) / name, folder / name)
    document = _checkpoint(config.state_file(stack))
    # the state names the kubeconfig's place; a move of it is no change of the lease
    text = json.dumps(document).replace(
        json.dumps(str(config.kubeconfig_copy.absolute())), json.dumps(str(apart.kubeconfig_copy))
    )
    apart.state_file(stack).write_text(text)
    return document


def _checkpoint(path: Path) -> dict[str, Any]:
    """A running provider may be replacing it just now. Raises `NoDiff` if it stays unreadable."""
    for _ in range(_READS):
        try:
            document = json.loads(path.read_bytes())
            if isinstance(document["checkpoint"], dict):
                return dict(document)
        except (OSError, ValueError, LookupError, TypeError):
            time.sleep(_PAUSE_S)
    raise NoDiff(f"the stack's state {path} cannot be read; the provider repairs it at its next update")
