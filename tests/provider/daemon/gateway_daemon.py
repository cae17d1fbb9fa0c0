"""A provider of tests with its gateway in a process of its own: the real socket, child and intake, over a scripted
chain and the API server of the kubeconfig.

    python -m tests.provider.daemon.gateway_daemon FOLDER

The settings come from the environment. One line of JSON says that a gateway listens, with its process if it is a child.
A manifest waits while there is a file `hold` in the folder, after making the file `held`.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

from lease.ids import LeaseId
from provider.daemon.gateway_child import GatewayChild
from provider.daemon.gateway_process import GatewayProcess
from provider.gateway.config import gateway_config
from provider.gateway.intake import ManifestIntake
from provider.gateway.link.calls import gateway_calls
from provider.gateway.provider_status import ProviderStatus
from provider.gateway.trial_build import trial_build
from provider.gateway.verdict import Verdict
from provider.kube.client import KubeCluster
from provider.lifecycle.config import LifecycleConfig
from provider.lifecycle.lease_claims import LeaseClaims
from provider.observe.logs import configure_logging
from provider.protocols.clock import SystemClock
from provider.settings import GatewayForm, load_settings
from tests.provider.gateway.manifests import TENANT, body, deployment, lease
from tests.provider.gateway.world import PROVIDER, SPECS, rented
from tests.world.bus import FakeBus
from tests.world.chain import FakeChain


async def run(folder: Path) -> None:
    settings, clock, chain = load_settings(), SystemClock(), FakeChain()
    configure_logging(form=settings.log_format, level=settings.log_level)
    rented(chain, deployment(body()), lease())
    cluster, config = KubeCluster(settings.kubeconfig), gateway_config(settings, PROVIDER)

    async def placements(_: LeaseId) -> None:
        while (folder / "hold").exists():
            (folder / "held").touch()
            await asyncio.sleep(0.02)

    async def status() -> ProviderStatus:
        return ProviderStatus(leases=7)

    async def screen(_: Any) -> Verdict:
        return Verdict(("no",))

    async def metrics(_: str) -> tuple[bytes, str]:
        return b"", "text/plain"

    intake = ManifestIntake(
        config,
        chain=chain,
        cluster=cluster,
        bus=FakeBus(),
        clock=clock,
        placements=placements,
        build=trial_build(SPECS),
        is_tenant=lambda _: True,
    )
    claims = LeaseClaims(cluster, LifecycleConfig(provider=PROVIDER))
    process = GatewayProcess(
        config,
        clock=clock,
        chain_id="local",
        tenants=lambda: frozenset((TENANT.address,)),
        troubles=lambda: {str(lease()): "the image is not there"},
        calls=gateway_calls(intake=intake, migrations=claims, status=status, screen=screen, metrics=metrics),
        child=GatewayChild(clock) if settings.gateway_form is GatewayForm.CHILD else None,
    )
    await process.start()
    running = asyncio.create_task(process.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    listening = asyncio.create_task(process.listening.wait())
    await asyncio.wait((running, listening), return_when=asyncio.FIRST_COMPLETED)
    if running.done() and not running.cancelled():
        await running
    child = process.child.pid if process.child is not None else 0
    print(json.dumps({"address": process.address, "child": child}), flush=True)
    await asyncio.gather(running, return_exceptions=True)
    await cluster.aclose()


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1])))
