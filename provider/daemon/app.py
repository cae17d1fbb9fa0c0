"""The running provider: backends are opened, parts are made, and every part runs until the provider is cancelled.

The listeners open before the API server and the chain have answered. Blocks of the chain go onto the bus; the market
loop turns orders into bids, the lease loop turns leases into stacks, and the gateway accepts manifests.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import structlog

from lease.spec import ClusterFacts
from provider.daemon.account_certificate import set_revoked_aside, watch_certificate
from provider.daemon.akt_price import follow_akt_price
from provider.daemon.backends import Backends, open_backends
from provider.daemon.certificate_secret import certificate_secret
from provider.daemon.fact_changes import follow_facts
from provider.daemon.file_limit import raise_file_limit, within_file_limit
from provider.daemon.gateway_parts import public_screen
from provider.daemon.gateway_process import GatewayProcess
from provider.daemon.health import health_listener
from provider.daemon.heap import keep_heap_small
from provider.daemon.leader import leading
from provider.daemon.lease_specs import cluster_facts, set_facts
from provider.daemon.parts import FIRST_BIDS_S, ProviderParts, provider_parts
from provider.daemon.pump import pump_blocks
from provider.daemon.reload import GATEWAY_LIMITS, Reload, limits_taker
from provider.daemon.requirements import Requirements, lacks, refuse_machine
from provider.daemon.startup import expected_chain, insist, known_chain
from provider.dashboard.questions import serve_views
from provider.gateway.provider_status import status_document
from provider.gateway.server import Gateway
from provider.gateway.streams.kept_events import follow_events
from provider.gateway.verdict import Screen
from provider.lifecycle.control import control_path, serve_control
from provider.lifecycle.loop import LeaseLoop
from provider.lifecycle.state import LeaseStatus, Phase
from provider.local_socket import status_socket
from provider.market.loop import run_market
from provider.market.question_socket import market_socket, serve_questions
from provider.market.screening import Screening
from provider.observe.narration import narrate
from provider.observe.operator_status import serve_status
from provider.observe.publication import publish_status
from provider.observe.scrape import serve_metrics
from provider.settings import Settings
from provider.store.leases import known_leases, save_status
from provider.store.retention import KeepFor, keep_house
from provider.waits import wait_for_event

__all__ = ["run_provider"]

_log = structlog.get_logger("lessor")
_Start: TypeAlias = Callable[..., asyncio.Task[Any]]


async def run_provider(settings: Settings, *, reload: Reload | None = None) -> None:
    """Run the provider until it is cancelled. What runs for tenants goes on after that, and bids stay open. `reload`
    says when settings are read again; without it they never are.

    Raises `SettingsError` for a fault that the operator must correct; every other fault is waited for.
    """
    keep_heap_small()
    gc.freeze()  # of what is loaded at the start, every collection would look through all of it again
    ready, needed = asyncio.Event(), Requirements()
    await refuse_machine(settings)
    async with (
        health_listener(settings.health_listen, ready),
        leading(settings) as leader,
        open_backends(within_file_limit(settings, raise_file_limit()), leader=leader) as backends,
        asyncio.TaskGroup() as group,
    ):
        start = group.create_task
        if leader is not None:
            start(leader.hold(), name="leader")
        chain_id = await _chain_id(backends, start)
        backends.public_chain.expect(chain_id)
        parts = provider_parts(backends, chain_id, set_facts(settings), lacking=lambda: needed.problem)
        gc.freeze()  # what is loaded by now stays: looking through it all would stop the loop for a tenth of a second
        if reload is not None:
            start(_reloads(reload, backends, parts), name="settings")
        if settings.akt_price_source == "chain":
            start(_prices(backends), name="price of AKT")
        start(backends.guard.run(partial(_store_replaced, backends, parts)), name="store's file")
        start(narrate(backends.bus, backends.database, mask=backends.engine.mask), name="narrate")
        start(parts.inventory.run(), name="inventory")
        facts, missing = start(_facts(backends), name="facts"), start(_lacks(backends), name="requirements")
        await _listen(backends, parts, start)
        parts.first_facts(await facts)
        await parts.inventory.ready()
        needed.note(await missing)
        await _work(backends, parts, start)
        start(_begin_later(backends, parts, start), name="later")
        following = follow_facts(
            settings, backends.cluster, facts.result(), clock=backends.clock, changed=parts.new_facts
        )
        start(following, name="facts about the cluster")
        start(needed.follow(settings, backends.cluster, clock=backends.clock), name="requirements again")
        if isinstance(parts.gateway, GatewayProcess) and parts.gateway.child is not None:
            await parts.gateway.listening.wait()
        host, port = parts.gateway.address
        ready.set()
        _log.info("provider.ready", provider=backends.address, gateway=f"{host}:{port}")
        gc.freeze()  # the inventory and the leases too


async def _reloads(reload: Reload, backends: Backends, parts: ProviderParts) -> None:
    """Have every part take what a SIGHUP brings; a gateway in a process of its own keeps its limits."""
    own = parts.gateway if isinstance(parts.gateway, Gateway) else None
    reload.fixed = frozenset() if own is not None else GATEWAY_LIMITS
    await reload.follow(parts.market, parts.funds, limits_taker(parts.leases, backends.chain, own, backends.address))


async def _prices(backends: Backends) -> None:
    if file := backends.settings.akt_price_path:
        await follow_akt_price(backends.public_chain.akt_price, file, clock=backends.clock)


async def _chain_id(backends: Backends, start: _Start) -> str:
    """The id of the chain. One that is known is compared with the node's while the start goes on: a node that does not
    answer delays nobody, and one of another chain is not used and ends the provider.
    """
    chain, database = backends.chain, backends.database
    expected = start(expected_chain(chain, database, clock=backends.clock), name="chain id")
    if known := await known_chain(chain, database):
        chain.expect(known)
    return known or await expected


async def _facts(backends: Backends) -> ClusterFacts:
    settings, cluster = backends.settings, backends.cluster
    return await insist(lambda: cluster_facts(settings, cluster), clock=backends.clock, event="cluster.unreachable")


async def _lacks(backends: Backends) -> list[str]:
    settings, cluster = backends.settings, backends.cluster
    return await insist(lambda: lacks(settings, cluster), clock=backends.clock, event="cluster.unreachable")


async def _listen(backends: Backends, parts: ProviderParts, start: _Start) -> None:
    """Open the listeners. Tenants are answered from here on; what needs the cluster or the chain waits for them."""
    if listen := backends.settings.metrics_listen:
        start(serve_metrics(parts.scrape, listen), name="metrics")
    if secret := certificate_secret(backends):
        await secret.take(backends.clock)
    await set_revoked_aside(backends)
    gateway = parts.gateway
    await gateway.start()
    if secret:
        start(secret.follow(backends.clock), name="certificate secret")
    start(gateway.run() if isinstance(gateway, GatewayProcess) else _stop_at_end(gateway), name="gateway")


async def _work(backends: Backends, parts: ProviderParts, start: _Start) -> None:
    """Start the loops. The inventory is complete."""
    clock, database, home = backends.clock, backends.database, backends.settings.home
    start(run_market(parts.market), name="market")
    known = await known_leases(database)
    parts.leases.recall(known)
    start(parts.leases.run(), name="leases")
    _resume_quarantine(parts.leases, known)
    start(parts.rented.run(), name="rented deployments")
    start(parts.claim_history.run(), name="history of claims")
    start(keep_house(database, _keep_for(backends.settings), clock), name="old rows")
    start(serve_control(parts.leases, control_path(home)), name="control")
    start(serve_status(parts.status, status_socket(home)), name="status")
    start(serve_views(parts.dashboard, home), name="views")
    if backends.settings.bus_url.get_secret_value():
        start(_publish_status(backends, parts), name="public topics")
    start(pump_blocks(backends.chain, backends.bus, database=database, clock=clock), name="chain")


async def _store_replaced(backends: Backends, parts: ProviderParts) -> None:
    """Write to an empty store what this process remembers."""
    mask = backends.engine.mask
    statuses = parts.leases.statuses.values()
    await save_status(backends.database, *(replace(each, reason=mask(each.lease, each.reason)) for each in statuses))
    await parts.leases.write_directives_again()
    await backends.engine.begin_anew()
    parts.claim_history.again()
    parts.funds.begin_anew()


def _keep_for(settings: Settings) -> KeepFor:
    return KeepFor(history=settings.history_ended, claims=settings.claims_age, earnings=settings.earnings_age)


async def _publish_status(backends: Backends, parts: ProviderParts) -> None:
    config = parts.gateway.config

    def document() -> dict[str, Any]:
        return status_document(
            parts.scrape.status(),
            address=backends.address,
            public_hostname=config.public_hostname,
            reclamation_window_ns=config.reclamation_window_ns,
        )

    await publish_status(backends.bus, document, mask=backends.engine.mask, clock=backends.clock)


async def _begin_later(backends: Backends, parts: ProviderParts, start: _Start) -> None:
    """Start what the first bids need not share the processor with, when they are sent or after two seconds."""
    clock, gateway = backends.clock, parts.gateway
    await wait_for_event(parts.market.passed, clock=clock, seconds=FIRST_BIDS_S)
    start(parts.funds.run(), name="funds")
    watch = watch_certificate(backends.chain, gateway.served, gateway.config, clock=clock, seen=parts.certificate)
    start(watch, name="cert")
    if parts.issuer is not None:
        start(parts.issuer.run(), name="CA's certificate")
    questions = serve_questions(Screening(parts.market), market_socket(backends.settings.home))
    start(questions, name="questions")
    if isinstance(gateway, Gateway):
        if (kept := gateway.stream_parts.kept) is not None:
            start(follow_events(backends.cluster, kept), name="events")
        start(_serve_grpc(backends, gateway, public_screen(backends, parts.market)), name="grpc gateway")
    if listen := backends.settings.dashboard_listen:
        start(_serve_dashboard(parts, listen, backends.settings.home), name="dashboard")
    await backends.start_plugin()


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


async def _serve_grpc(backends: Backends, gateway: Gateway, screen: Screen) -> None:
    """Serve gRPC. Its library is loaded beside the loop, since tenants do not wait for it."""
    serve_grpc = await asyncio.to_thread(_grpc_server)
    await serve_grpc(screen, backends.settings, gateway=gateway, cluster=backends.cluster, clock=backends.clock)


async def _serve_dashboard(parts: ProviderParts, listen: str, home: Path) -> None:
    """Serve the dashboard. Its library of templates is loaded beside the loop, since leases do not wait for it."""
    serve_dashboard = await asyncio.to_thread(_dashboard_server)
    await serve_dashboard(parts.dashboard, listen=listen, home=home)


def _dashboard_server() -> Callable[..., Awaitable[None]]:
    from provider.dashboard.server import serve_dashboard  # noqa: PLC0415  a tenth of a second

    return serve_dashboard


def _grpc_server() -> Callable[..., Awaitable[None]]:
    from provider.gateway.grpc.server import serve_grpc  # noqa: PLC0415  a tenth of a second

    return serve_grpc
