"""The provider put together: the only place where the parts meet.

Chain blocks go onto the bus; the market loop turns orders into bids, the lease loop turns leases into stacks, the
gateway takes manifests. Each part is told only of the protocols it uses.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import structlog

from lease.build import SpecSettings, lease_spec
from lease.ids import LeaseId
from lease.spec import ClusterFacts, GpuPlacement, IngressMode, LeaseSpec
from provider.bus import MemoryBus
from provider.chain.comet import CometChain
from provider.chain.keys import load_key
from provider.daemon.pump import pump_blocks
from provider.daemon.startup import cluster_facts, our_chain
from provider.errors import SettingsError
from provider.funds.plan import FundsRules
from provider.funds.wallet import WalletRules
from provider.funds.watch import Funds, FundsWatch
from provider.gateway.config import gateway_config
from provider.gateway.grpc.serving import serve_grpc
from provider.gateway.lease_objects import LeaseObjects, ReadLease, lease_reader
from provider.gateway.provider_status import ProviderStatus
from provider.gateway.server import Gateway
from provider.gateway.trial_build import TrialBuild, trial_build
from provider.inventory.cards import Cards, cards_of
from provider.inventory.ledger import Ledger
from provider.inventory.watcher import InventoryWatcher
from provider.kube.client import KubeCluster
from provider.lifecycle.claims import Claims
from provider.lifecycle.config import LifecycleConfig
from provider.lifecycle.control import control_path, serve_control
from provider.lifecycle.loop import LeaseLoop
from provider.lifecycle.openings import openable, opening_spec
from provider.lifecycle.parts import MakeLeaseSpec, Parts
from provider.lifecycle.placement import placing
from provider.lifecycle.reconcile import Reconciler
from provider.lifecycle.state import Phase
from provider.lifecycle.tenant_text import tenant_words
from provider.market.book import Market
from provider.market.loop import run_market
from provider.market.owner_lists import owner_rules
from provider.market.pricing.strategy import pricing_from, pricing_mark
from provider.market.question_socket import market_socket, serve_questions
from provider.market.rules import rules_from
from provider.market.screening import Screening
from provider.observe.narration import narrate
from provider.observe.operator_status import Observed, day_fees, serve_status, status_socket
from provider.observe.provider_status import provider_status
from provider.observe.queue import show_load, tell_plugin
from provider.protocols import Clock
from provider.protocols.clock import SystemClock
from provider.records.manifests import ManifestRecord
from provider.runs.history import History, RecordedEngine
from provider.settings import Settings
from provider.store import Database, open_database
from provider.store.directives import StoredMemory
from provider.store.leases import known_leases
from provider.store.ring import open_ring
from provider.store.transactions import StoredJournal
from stacks.engine import EngineConfig, PulumiEngine

__all__ = ["engine_config", "run_provider", "spec_maker"]

_log = structlog.get_logger("lessor")


@dataclass(frozen=True, slots=True)
class _World:
    """What exists before any loop runs."""

    settings: Settings
    address: str
    clock: Clock
    bus: MemoryBus
    database: Database
    chain: CometChain
    cluster: KubeCluster
    engine: RecordedEngine


async def run_provider(settings: Settings) -> None:
    """Run until cancelled. What runs for tenants keeps running when this ends, open bids stay open.

    Raises `SettingsError` for what only the operator can put right; everything else is waited for.
    """
    async with _world(settings) as world:
        chain_id = await our_chain(world.chain, world.database, clock=world.clock)
        facts = await cluster_facts(settings, world.cluster, clock=world.clock)
        await _run_loops(world, chain_id, facts)


@asynccontextmanager
async def _world(settings: Settings) -> AsyncIterator[_World]:
    _make_home(settings.home)
    key, clock = load_key(settings), SystemClock()
    async with AsyncExitStack() as stack:
        shared = settings.shared_plugin
        engine = PulumiEngine(engine_config(settings), shared_plugin=shared, plugin_told=tell_plugin)
        stack.push_async_callback(engine.close)
        await engine.start()
        show_load(lambda: engine.load)
        database = await open_database(settings.database_url)
        stack.push_async_callback(database.close)
        recorded = await _recorded(engine, database, clock, settings)
        cluster = KubeCluster(settings.kubeconfig)
        stack.push_async_callback(cluster.aclose)
        journal = StoredJournal(database)
        chain = await stack.enter_async_context(CometChain(settings, clock=clock, key=key, journal=journal))
        yield _World(settings, key.address, clock, MemoryBus(), database, chain, cluster, recorded)


async def _recorded(engine: PulumiEngine, database: Database, clock: Clock, settings: Settings) -> RecordedEngine:
    ring = await open_ring(database, settings.store_key)
    history = History(database, ring, clock, keep_runs=settings.history_runs, keep_ended=settings.history_ended)
    recorded = RecordedEngine(engine, history)
    engine.tell_given_up(recorded.gave_up)
    await recorded.start()
    return recorded


def _make_home(home: Path) -> None:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            pass
    except OSError as error:
        raise SettingsError(f"AP_HOME={home}: {error.strerror}; it must be a folder that can be written") from error


def engine_config(settings: Settings) -> EngineConfig:
    """How this provider's engine is set up; `SettingsError` when Pulumi or the kubeconfig is missing."""
    pulumi = shutil.which("pulumi")
    if pulumi is None:
        raise SettingsError("the program pulumi is not on PATH; `lessor doctor` says how to get it")
    if settings.kubeconfig is None:
        raise SettingsError("KUBECONFIG is not set: the stacks need a kubeconfig file")
    return EngineConfig(
        data=settings.home / "engine",
        kubeconfig=settings.kubeconfig,
        pulumi=Path(pulumi).absolute(),
        pulumi_home=settings.pulumi_home,
        workers=settings.stack_workers,
        engine=settings.engine,
        secrets=settings.stack_secrets,
        vault_url=settings.vault_url,
        vault_token_file=settings.vault_token_file,
        vault_key=settings.vault_key,
        backend=settings.stack_backend,
        skip_checkpoints=settings.skip_checkpoints,
        open_updates=settings.open_updates,
    )


async def _run_loops(world: _World, chain_id: str, facts: ClusterFacts) -> None:
    settings, clock, bus = world.settings, world.clock, world.bus
    inventory = InventoryWatcher(world.cluster, settings, bus=bus, clock=clock)
    ledger = Ledger(world.address)
    funds = _funds(world, ledger)
    market = _market(world, ledger, inventory, paused=funds.paused)
    cards = cards_of(ledger, lambda: inventory.inventory, overcommit=market.rules.overcommit)
    leases = _lease_loop(world, chain_id, facts, ledger, cards=cards)
    build = trial_build(spec_maker(settings, facts))
    gateway = _gateway(world, market, ledger, inventory, leases, cards=cards, build=build)
    async with asyncio.TaskGroup() as group:
        group.create_task(narrate(bus, world.database, mask=world.engine.mask), name="narrate")
        group.create_task(inventory.run(), name="inventory")
        await inventory.ready()
        group.create_task(run_market(market), name="market")
        group.create_task(leases.run(), name="leases")
        await _look_again(world, leases)
        group.create_task(funds.run(), name="funds")
        group.create_task(serve_control(leases, control_path(settings.home)), name="control")
        observed = _observed(world, chain_id, market, funds=funds, leases=leases)
        group.create_task(serve_status(observed, status_socket(settings.home)), name="status")
        await gateway.start()
        group.create_task(_stop_at_end(gateway), name="gateway")
        screening = Screening(market)
        group.create_task(serve_questions(screening, market_socket(settings.home)), name="questions")
        grpc = serve_grpc(screening, settings, certificate=gateway.certificate.path, cluster=world.cluster)
        group.create_task(grpc, name="grpc gateway")
        group.create_task(pump_blocks(world.chain, bus, database=world.database, clock=clock), name="chain")
        host, port = gateway.address
        _log.info("provider.ready", provider=world.address, gateway=f"{host}:{port}")


async def _look_again(world: _World, leases: LeaseLoop) -> None:
    """What was quarantined when we stopped may be gone, and then nothing else names it."""
    for status in await known_leases(world.database):
        if status.phase is Phase.QUARANTINED:
            leases.look(status.lease)


async def _stop_at_end(gateway: Gateway) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await gateway.stop()


def _market(world: _World, ledger: Ledger, inventory: InventoryWatcher, *, paused: Callable[[], str]) -> Market:
    settings = world.settings
    return Market(
        provider=world.address,
        chain=world.chain,
        bus=world.bus,
        clock=world.clock,
        ledger=ledger,
        inventory=lambda: inventory.inventory,
        database=world.database,
        rules=rules_from(settings),
        pricing=pricing_from(settings, now=world.clock.now),
        pricing_mark=pricing_mark(settings),
        owners=owner_rules(settings),
        deposit=settings.bid_deposit,
        bid_timeout=settings.bid_timeout,
        bid_blocks=settings.tx_timeout_blocks,
        interval=settings.market_interval,
        attributes_age=settings.attributes_age,
        decisions_kept=settings.decisions_kept,
        decisions_age=settings.decisions_age,
        paused=paused,
    )


def _funds(world: _World, ledger: Ledger) -> FundsWatch:
    settings = world.settings
    parts = Funds(
        provider=world.address,
        chain=world.chain,
        bus=world.bus,
        clock=world.clock,
        database=world.database,
        rules=FundsRules(settings.funds_interval, settings.withdrawal_period, settings.withdrawal_threshold),
        wallet=WalletRules(
            settings.gas_prices,
            settings.gas_adjustment,
            settings.bid_deposit,
            settings.minimum_balance,
            settings.fee_granter,
        ),
        engaged=lambda: len(ledger.orders()),
    )
    return FundsWatch(parts)


def _observed(world: _World, chain_id: str, market: Market, *, funds: FundsWatch, leases: LeaseLoop) -> Observed:
    settings, denom = world.settings, world.settings.gas_prices.denom
    return Observed(
        chain_id=chain_id,
        fee_denom=denom,
        budget=settings.fee_budget,
        granter=settings.fee_granter,
        market=market,
        paid=day_fees(StoredJournal(world.database), chain_id=chain_id, address=world.address, denom=denom),
        nodes=world.chain.nodes,
        wallet=lambda: funds.wallet,
        leases=lambda: leases.statuses,
        braked=lambda: len(leases.braked),
    )


def _lease_loop(world: _World, chain_id: str, facts: ClusterFacts, ledger: Ledger, *, cards: Cards) -> LeaseLoop:
    settings = world.settings
    config = LifecycleConfig(
        provider=world.address,
        chain_id=chain_id,
        records=settings.manifest_namespace,
        metallb_namespace=settings.metallb_namespace,
        blocked_hostnames=settings.blocked_hostnames,
        ip_ranges=settings.ip_ranges,
        confirmations=settings.close_confirmations,
        preview_updates=settings.preview_updates,
        repair_drift=settings.drift == "repair",
        gateway_api=settings.ingress_mode is IngressMode.GATEWAY_API,
        unstable_after_s=settings.unstable_after,
        manifest_timeout_s=settings.manifest_timeout,
        brake_leases=settings.brake_leases,
        brake_percent=settings.brake_percent,
        brake_window_s=settings.brake_window,
        volume_quarantine_s=settings.volume_quarantine,
    )
    parts = Parts(
        cluster=world.cluster,
        engine=world.engine,
        bus=world.bus,
        config=config,
        claims=Claims(world.cluster, config),
        make_spec=world.engine.watching(placing(spec_maker(settings, facts), cards)),
        release=ledger.release,
        opening=partial(opening_spec, cluster=facts) if settings.open_updates else None,
    )
    reconciler = Reconciler(parts, chain=world.chain, clock=world.clock, memory=StoredMemory(world.database))
    return LeaseLoop(reconciler, parts, chain=world.chain, clock=world.clock)


def spec_maker(settings: Settings, facts: ClusterFacts) -> MakeLeaseSpec:
    """What turns a stored manifest into the LeaseSpec of this provider's settings, also for `lessor diff`."""
    rules = SpecSettings(
        static_hosts=settings.ingress_static_hosts,
        ingress_domain=settings.ingress_domain,
        overcommit_cpu_percent=settings.overcommit_cpu,
        overcommit_memory_percent=settings.overcommit_memory,
        overcommit_storage_percent=settings.overcommit_storage,
        runtime_class=settings.runtime_class,
    )

    def make(
        record: ManifestRecord,
        *,
        withheld: frozenset[str],
        addresses: Mapping[str, str],
        previous: LeaseSpec | None,
    ) -> LeaseSpec:
        spec = lease_spec(
            lease=record.lease,
            group=record.group,
            resource_version=record.resource_version,
            placements=record.placements,
            addresses=addresses,
            cluster=facts,
            settings=rules,
            withheld=withheld,
            previous=previous,
        )
        return openable(spec) if settings.open_updates and previous is None else spec

    return make


def _gateway(
    world: _World,
    market: Market,
    ledger: Ledger,
    inventory: InventoryWatcher,
    leases: LeaseLoop,
    *,
    cards: Cards,
    build: TrialBuild,
) -> Gateway:
    async def status() -> ProviderStatus:
        orders = len(market.book.placed) + len(market.book.busy)
        braked = len(leases.braked)
        return provider_status(ledger, inventory.inventory, leases.statuses, open_orders=orders, braked=braked)

    async def placements(lease: LeaseId) -> Mapping[int, GpuPlacement | None] | None:
        return cards(lease)

    return Gateway(
        gateway_config(world.settings, world.address),
        chain=world.chain,
        cluster=world.cluster,
        bus=world.bus,
        clock=world.clock,
        status=status,
        kube_version=world.cluster.version,
        placements=placements,
        build=build,
        read_lease=_read_lease(world, leases),
    )


def _read_lease(world: _World, leases: LeaseLoop) -> ReadLease:
    """What the cluster holds of a lease, and what the lease loop has to say about it."""
    read = lease_reader(world.cluster, world.settings.manifest_namespace)

    async def told(lease: LeaseId) -> LeaseObjects:
        return replace(await read(lease), trouble=tenant_words(leases.statuses.get(lease)))

    return told
