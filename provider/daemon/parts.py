"""The parts of the provider, in the order of the flow: what is free, orders and bids, leases, money, the gateway, and
the status for the operator. Each part gets only the ports and the functions of other parts that it uses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import structlog

from lease.spec import ClusterFacts, IngressMode
from provider.claims.edge import asking
from provider.claims.hostnames import hostname_rules
from provider.claims.ownership import OwnershipProofs
from provider.daemon.account_certificate import CertificateOnChain
from provider.daemon.backends import Backends
from provider.daemon.certificates import certificate_ends
from provider.daemon.gateway_parts import GatewaySources, kept_events, provider_gateway
from provider.daemon.gateway_process import GatewayProcess
from provider.daemon.gateway_status import certificate_issuer, gateway_status
from provider.daemon.maintenance import followed_maintenance, maintenance_text
from provider.daemon.reload import funds_rules, wallet_rules
from provider.dashboard.views import Sources
from provider.errors import ClusterError
from provider.funds.watch import Funds, FundsWatch
from provider.gateway.issuer.renewal import CertificateIssuer
from provider.gateway.provider_status import ProviderStatus
from provider.gateway.rented_deployments import RentedDeployments
from provider.gateway.server import Gateway
from provider.gateway.trial_build import trial_build
from provider.gateway.watched_objects import Observers, WatchedObjects
from provider.inventory.cards import cards_of
from provider.inventory.freshness import Freshness
from provider.inventory.ledger import Ledger
from provider.inventory.published import storage_reader
from provider.inventory.watcher import InventoryWatcher
from provider.lifecycle.config import LifecycleConfig
from provider.lifecycle.ending.evidence import RanOut
from provider.lifecycle.lease_claims import LeaseClaims
from provider.lifecycle.loop import LeaseLoop
from provider.lifecycle.parts import Parts
from provider.lifecycle.reconcile import Reconciler
from provider.lifecycle.spec_maker import SpecMaker, spec_maker
from provider.lifecycle.watches import Observer
from provider.maintenance import Maintenance
from provider.market.book import Market
from provider.market.owner_lists import owner_rules
from provider.market.pricing.strategy import pricing_from, pricing_mark
from provider.market.rules import rules_from
from provider.observe.operator_status import StatusSources, day_fees, operator_status
from provider.observe.provider_status import provider_status
from provider.observe.scrape import Scrape
from provider.precedence import Precedence
from provider.runs.claims import ClaimHistory
from provider.settings.kinds import ProofKind
from provider.store.directives import StoredDirectives
from provider.store.transactions import StoredJournal
from provider.waits import wait_for_event

__all__ = ["FIRST_BIDS_S", "ProviderParts", "provider_parts"]

FIRST_BIDS_S = 2.0
"""So long what can wait does not share the processor with the first bids."""

_log = structlog.get_logger("lessor")
_TakeFacts: TypeAlias = Callable[[ClusterFacts], None]


@dataclass(frozen=True, slots=True)
class ProviderParts:
    """The parts that run. None of them is started. `first_facts` takes what the API server says of the cluster, before
    the loops start, and `new_facts` what it says differently later.
    """

    inventory: InventoryWatcher
    market: Market
    leases: LeaseLoop
    funds: FundsWatch
    gateway: Gateway | GatewayProcess
    rented: RentedDeployments
    status: StatusSources
    scrape: Scrape
    dashboard: Sources
    certificate: CertificateOnChain
    claim_history: ClaimHistory
    issuer: CertificateIssuer | None
    first_facts: Callable[[ClusterFacts], None]
    new_facts: Callable[[ClusterFacts], None]


def provider_parts(
    backends: Backends, chain_id: str, facts: ClusterFacts, *, lacking: Callable[[], str] = lambda: ""
) -> ProviderParts:
    """`lacking`: what the cluster lacks, which stops the bids; empty for nothing."""
    settings = backends.settings
    maintenance = followed_maintenance(settings.home, backends.clock)
    inventory = _inventory(backends, maintenance)
    ledger = Ledger(backends.address)
    funds = _funds(backends, ledger)
    paused = _first_reason(lambda: maintenance().bids, lacking, funds.paused, lambda: inventory.freshness.problem)
    market = _market(backends, ledger, inventory, paused=paused)
    cards = cards_of(ledger, lambda: inventory.inventory, overcommit=market.rules.overcommit)
    specs = spec_maker(settings, facts)
    noted = replace(specs, cards=cards, note=backends.engine.note_spec)
    objects, precedence, kept = WatchedObjects(), Precedence(backends.clock), kept_events(backends)
    claims = ClaimHistory(backends.database, backends.clock, provider=backends.address)
    seen, ran_out = Observers(objects, kept, claims), funds.ran_out
    may_begin = _after_first_bids(market, precedence)
    leases = _lease_loop(backends, chain_id, ledger, specs=noted, ran_out=ran_out, observer=seen, may_begin=may_begin)
    rented = RentedDeployments(backends.chain, provider=backends.address, bus=backends.bus, clock=backends.clock)
    public = _public_status(market, ledger, inventory, leases)
    scrape = Scrape(public, lambda: leases.statuses)
    sources = GatewaySources(
        backends,
        chain_id,
        market=market,
        ledger=ledger,
        leases=leases,
        cards=cards,
        build=trial_build(specs, policies=backends.policies),
        objects=objects,
        kept_events=kept,
        rented=rented,
        status=_once_listed(public, inventory, backends.cluster.address),
        scrape=scrape,
        precedence=precedence,
        maintenance=maintenance_text(maintenance, inventory),
    )
    certificate, issuer, gateway = CertificateOnChain(), certificate_issuer(backends), provider_gateway(sources)
    status = replace(
        _status_sources(backends, chain_id, market, funds=funds, leases=leases, freshness=inventory.freshness),
        certificates=lambda: certificate_ends(backends, revoked=certificate.revoked),
        gateway=lambda: gateway_status(gateway, issuer),
        maintenance=lambda: maintenance().model_dump(mode="json"),
        store=backends.guard.status,
    )
    first_facts, new_facts = _facts_takers(specs, noted, leases)
    dashboard = _dashboard_sources(backends, market, status, stale=lambda: inventory.freshness.problem)
    parts = (inventory, market, leases, funds, gateway, rented, status, scrape, dashboard)
    return ProviderParts(*parts, certificate, claims, issuer, first_facts, new_facts)


def _first_reason(*reasons: Callable[[], str]) -> Callable[[], str]:
    return lambda: next(filter(None, (reason() for reason in reasons)), "")


def _inventory(backends: Backends, maintenance: Callable[[], Maintenance]) -> InventoryWatcher:
    settings = backends.settings
    return InventoryWatcher(
        backends.cluster,
        settings,
        bus=backends.bus,
        clock=backends.clock,
        storage=storage_reader(backends.cluster, settings.inventory_endpoint),
        drained=lambda: tuple(maintenance().nodes),
    )


def _facts_takers(specs: SpecMaker, noted: SpecMaker, leases: LeaseLoop) -> tuple[_TakeFacts, _TakeFacts]:
    """What takes the facts about the cluster that are read first, and what takes others later."""

    def first_facts(facts: ClusterFacts) -> None:
        specs.facts = noted.facts = facts

    def new_facts(facts: ClusterFacts) -> None:
        first_facts(facts)
        leases.check_all()

    return first_facts, new_facts


def _dashboard_sources(
    backends: Backends, market: Market, status: StatusSources, *, stale: Callable[[], str]
) -> Sources:
    return Sources(
        status=lambda: operator_status(status),
        inventory=market.inventory,
        free=lambda: market.ledger.free(market.inventory()),
        stale=stale,
        policies=backends.policies,
        database=backends.database,
        ring=backends.engine.ring,
        cluster=backends.cluster,
        records=backends.settings.manifest_namespace,
        bus=backends.bus,
        clock=backends.clock,
    )


def _market(backends: Backends, ledger: Ledger, inventory: InventoryWatcher, *, paused: Callable[[], str]) -> Market:
    settings = backends.settings
    return Market(
        provider=backends.address,
        chain=backends.chain,
        bus=backends.bus,
        clock=backends.clock,
        ledger=ledger,
        inventory=lambda: inventory.inventory,
        database=backends.database,
        rules=rules_from(settings),
        pricing=pricing_from(settings, now=backends.clock.now),
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


def _lease_loop(
    backends: Backends,
    chain_id: str,
    ledger: Ledger,
    *,
    specs: SpecMaker,
    ran_out: RanOut,
    observer: Observer,
    may_begin: Callable[[], Awaitable[None]],
) -> LeaseLoop:
    config = _lifecycle_config(backends, chain_id)
    settings, clock = backends.settings, backends.clock
    proofs = _hostname_proofs(backends, specs)
    ask = asking(settings.edge_endpoint)
    parts = Parts(
        cluster=backends.cluster,
        engine=backends.engine,
        bus=backends.bus,
        config=config,
        claims=LeaseClaims(backends.cluster, config, clock=clock, ask=ask, proofs=proofs),
        specs=specs,
        release=ledger.release,
        note_refusal=backends.engine.note_refusal,
    )
    directives = StoredDirectives(backends.database)
    reconciler = Reconciler(parts, chain=backends.chain, clock=backends.clock, directives=directives, ran_out=ran_out)
    return LeaseLoop(
        reconciler,
        parts,
        chain=backends.chain,
        clock=backends.clock,
        observer=observer,
        may_begin=may_begin,
    )


def _after_first_bids(market: Market, precedence: Precedence) -> Callable[[], Awaitable[None]]:
    """What the lease loop awaits before its start and before each check: at the start the bids on open orders, two
    seconds at most, and requests of tenants always.
    """
    begun = asyncio.Event()

    async def wait() -> None:
        if not begun.is_set():
            await wait_for_event(market.passed, clock=market.clock, seconds=FIRST_BIDS_S)
            begun.set()
        await precedence.wait()

    return wait


def _hostname_proofs(backends: Backends, specs: SpecMaker) -> OwnershipProofs | None:
    """The proofs that the settings ask for. Their library is loaded with them only: it brings an HTTP client."""
    if backends.settings.hostname_proof is ProofKind.OFF:
        return None
    from provider.claims.proof_lookups import hostname_proofs  # noqa: PLC0415  a tenth of a second

    return hostname_proofs(backends.settings, backends.clock, backends.cluster, nodes=lambda: specs.facts.own_addresses)


def _lifecycle_config(backends: Backends, chain_id: str) -> LifecycleConfig:
    settings = backends.settings
    return LifecycleConfig(
        provider=backends.address,
        chain_id=chain_id,
        records=settings.manifest_namespace,
        metallb_namespace=settings.metallb_namespace,
        hostnames=hostname_rules(settings),
        ip_ranges=settings.ip_ranges,
        ip_pools=settings.ip_pools,
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
        policies=backends.policies,
        routes_overlap=settings.routes_overlap,
        ignored_options=settings.ignored_options,
    )


def _funds(backends: Backends, ledger: Ledger) -> FundsWatch:
    settings = backends.settings
    parts = Funds(
        provider=backends.address,
        chain=backends.chain,
        bus=backends.bus,
        clock=backends.clock,
        database=backends.database,
        rules=funds_rules(settings),
        wallet=wallet_rules(settings),
        engaged=lambda: len(ledger.orders()),
    )
    return FundsWatch(parts)


def _public_status(
    market: Market, ledger: Ledger, inventory: InventoryWatcher, leases: LeaseLoop
) -> Callable[[], ProviderStatus]:
    def status() -> ProviderStatus:
        orders = len(market.book.placed) + len(market.book.busy)
        braked = len(leases.braked)
        return provider_status(ledger, inventory.inventory, leases.statuses, open_orders=orders, braked=braked)

    return status


def _once_listed(
    status: Callable[[], ProviderStatus], inventory: InventoryWatcher, address: str
) -> Callable[[], ProviderStatus]:
    """`status`, refused while the provider starts: an inventory of nothing would say that nothing is free."""

    def listed() -> ProviderStatus:
        if not inventory.complete:
            raise ClusterError(address, "the inventory is not read yet")
        return status()

    return listed


def _status_sources(
    backends: Backends, chain_id: str, market: Market, *, funds: FundsWatch, leases: LeaseLoop, freshness: Freshness
) -> StatusSources:
    settings, denom = backends.settings, backends.settings.gas_prices.denom
    journal = StoredJournal(backends.database)
    return StatusSources(
        chain_id=chain_id,
        fee_denom=denom,
        budget=backends.chain.fee_budget,
        granter=settings.fee_granter,
        market=market,
        paid=day_fees(journal, chain_id=chain_id, address=backends.address, denom=denom),
        nodes=backends.chain.nodes,
        wallet=lambda: funds.wallet,
        leases=lambda: leases.statuses,
        braked=lambda: len(leases.braked),
        fee_problem=backends.chain.fee_problem,
        cluster=lambda: {
            "address": backends.cluster.address,
            "seconds_ago": freshness.seconds,
            "problem": freshness.problem,
        },
        funds_problem=funds.problem,
        suspects=lambda: len(leases.suspects),
        unknown_stacks=lambda: len(leases.unknown_stacks),
        home=settings.home,
    )
