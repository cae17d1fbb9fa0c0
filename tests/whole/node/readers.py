"""What operator and tenant read of a lease on the real node, and the waits for it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from lease.ids import LeaseId
from provider.records.applied import applied_name
from tests.whole.node.conftest import Site
from tests.world.patience import PATIENCE_S

__all__ = ["is_applied", "is_running", "lessor", "operator_reads", "restart_provider", "tenant_reads", "until"]

_COMMAND_S = 60.0


async def lessor(site: Site, *arguments: str) -> str:
    """What `lessor` prints for the operator."""
    argv = [str(Path(sys.executable).with_name("lessor")), *arguments]
    env = {**os.environ, **site.world.provider_env()}
    done = await asyncio.to_thread(
        subprocess.run, argv, env=env, capture_output=True, text=True, timeout=_COMMAND_S, check=False
    )
    assert done.returncode == 0, done
    return done.stdout


async def operator_reads(site: Site, lease: LeaseId) -> str:
    """State and reason, as `lessor lease show` has them."""
    shown = json.loads(await lessor(site, "lease", "show", str(lease), "--json"))
    return f"{shown['state']}: {shown['reason']}"


async def tenant_reads(site: Site, lease: LeaseId) -> str:
    """The errors of the lease's status at the gateway; the gateway's refusal while the lease is not deployed."""
    gateway = await site.world.tenant.gateway(site.world.provider)
    answer = await gateway.lease_status(lease.dseq, gseq=lease.gseq, oseq=lease.oseq)
    return "; ".join(json.loads(answer.body).get("errors") or ()) if answer.status == 200 else answer.body


async def is_running(site: Site, lease: LeaseId) -> bool:
    return (await operator_reads(site, lease)).startswith("running")


async def is_applied(site: Site, lease: LeaseId) -> bool:
    """Whether no version is being applied. A provider that starts with other settings, as between the tests of two
    edges, changes its leases a moment later, and what is changed serves before the run has ended.
    """
    facts = ("-n", "lease", "get", "secret", applied_name(lease), "-o", "jsonpath={.data.facts}")
    found = json.loads(base64.b64decode((await site.kubectl(*facts)).stdout) or "{}")
    return "attempt" in found and found["attempt"] is None


async def restart_provider(site: Site, **settings: str) -> None:
    """Stop `lessor run` once no deployment is being closed, and start it again with these settings beside its own."""
    await site.settle()
    await site.provider.stop()
    site.provider = await site.world.run_provider(seconds=60, **settings)


async def until(asked: Callable[[], Awaitable[bool]], what: str, *, seconds: float = PATIENCE_S) -> None:
    """Return when it is so; fail with `what` when it is not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not await asked():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.2)
