"""The running provider: backends are opened, parts are made, and every part runs until the provider is cancelled.

Blocks of the chain go onto the bus; the market loop turns orders into bids, the lease loop turns leases into stacks,
and the gateway accepts manifests.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterable

import structlog

from lease.spec import ClusterFacts
from provider.daemon.account_certificate import set_revoked_aside, watch_certificate
from provider.daemon.backends import Backends, open_backends
from provider.daemon.fact_changes import follow_facts
from provider.daemon.file_limit import raise_file_limit, within_file_limit
from provider.daemon.lease_specs import cluster_facts
from provider.daemon.parts import ProviderParts, provider_parts
from provider.daemon.pump import pump_blocks
from provider.daemon.startup import expected_chain, insist
from provider.gateway.server import Gateway
from provider.lifecycle.control import control_path, serve_control
from provider.lifecycle.loop import LeaseLoop
from provider.lifecycle.state import LeaseStatus, Phase
from provider.local_socket import status_socket
from provider.market.loop import run_market
from provider.market.public_sources import PublicSources
from provider.market.question_socket import market_socket, serve_questions
from provider.market.screening import Screening
from provider.observe.narration import narrate
from provider.observe.operator_status import serve_status
from provider.observe.scrape import serve_metrics
from provider.settings import Settings
from provider.store.leases import known_leases

__all__ = ["run_provider"]

_log = structlog.get_logger("lessor")


async def run_provider(settings: Settings) -> None:
    """Run the provider until it is cancelled. What runs for tenants goes on after that, and bids stay open.

    Raises `SettingsError` for a fault that the operator must correct; every other fault is waited for.
    """
    gc.freeze()  # of what is loaded at the start, every collection would look through all of it again
    async with open_backends(within_file_limit(settings, raise_file_limit())) as backends:
        clock, cluster = backends.clock, backends.cluster
        chain_id = await expected_chain(backends.chain, backends.database, clock=clock)
        backends.public_chain.expect(chain_id)
        facts = await insist(lambda: cluster_facts(settings, cluster), clock=clock, event="cluster.unreachable")
        parts = provider_parts(backends, chain_id, facts)
        gc.freeze()  # what is loaded by now stays: looking through it all would stop the loop for a tenth of a second
        await _run(backends, parts, facts)


async def _run(backends: Backends, parts: ProviderParts, facts: ClusterFacts) -> None:
    home, database, bus = backends.settings.home, backends.database, backends.bus
    async with asyncio.TaskGroup() as group:
        start = group.create_task
        if listen := backends.settings.metrics_listen:
            start(serve_metrics(parts.scrape, listen), name="metrics")
        start(narrate(bus, database, mask=backends.engine.mask), name="narrate")
        start(parts.inventory.run(), name="inventory")
        await parts.inventory.ready()
        start(run_market(parts.market), name="market")
        known = await known_leases(database)
        parts.leases.recall(known)
        start(parts.leases.run(), name="leases")
        _resume_quarantine(parts.leases, known)
        start(parts.funds.run(), name="funds")
        start(serve_control(parts.leases, control_path(home)), name="control")
        start(serve_status(parts.status, status_socket(home)), name="status")
        await set_revoked_aside(backends)
        await parts.gateway.start()
        certificate = parts.gateway.served.account
        owner, clock = backends.address, backends.clock
        watch = watch_certificate(backends.chain, certificate, owner=owner, clock=clock, seen=parts.certificate)
        start(watch, name="cert")
        start(_stop_at_end(parts.gateway), name="gateway")
        start(parts.rented.run(), name="rented deployments")
        start(serve_questions(Screening(parts.market), market_socket(home)), name="questions")
        start(_serve_grpc(backends, parts), name="grpc gateway")
        following = follow_facts(
            backends.settings, backends.cluster, facts, clock=backends.clock, changed=parts.new_facts
        )
        start(following, name="facts about the cluster")
        start(pump_blocks(backends.chain, bus, database=database, clock=backends.clock), name="chain")
        host, port = parts.gateway.address
        _log.info("provider.ready", provider=backends.address, gateway=f"{host}:{port}")
        gc.freeze()  # the inventory and the leases too


def _resume_quarantine(leases: LeaseLoop, known: Iterable[LeaseStatus]) -> None:
    """Reconcile every lease that was quarantined at the last stop: when its volume is gone by now, nothing else names
    the lease.
    """
    for status in known:
        if status.phase is Phase.QUARANTINED:
            leases.check(status.lease)


async def _stop_at_end(gateway: Gateway) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await gateway.stop()


async def _serve_grpc(backends: Backends, parts: ProviderParts) -> None:
    """Serve gRPC. Its library is loaded beside the loop, since tenants do not wait for it."""
    serve_grpc = await asyncio.to_thread(_grpc_server)
    screening = Screening(parts.market, public=PublicSources(parts.market, backends.public_chain))
    await serve_grpc(
        screening,
        backends.settings,
        gateway=parts.gateway,
        cluster=backends.cluster,
        clock=backends.clock,
    )


def _grpc_server() -> Callable[..., Awaitable[None]]:
    from provider.gateway.grpc.server import serve_grpc  # noqa: PLC0415  a tenth of a second

    return serve_grpc
