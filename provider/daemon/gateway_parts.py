"""The gateway over the other parts of the provider: in this process, or the provider's end of one in a process of its
own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lease.ids import LeaseId
from lease.spec import GpuPlacement
from provider.daemon.backends import Backends
from provider.daemon.gateway_child import GatewayChild
from provider.daemon.gateway_process import GatewayProcess
from provider.gateway.config import GatewayConfig, gateway_config
from provider.gateway.intake import ManifestIntake, Placements
from provider.gateway.lease_objects import ReadLease, lease_reader
from provider.gateway.link.calls import gateway_calls
from provider.gateway.link.server import Call
from provider.gateway.provider_status import ProviderStatus
from provider.gateway.refusals import Refusals
from provider.gateway.rented_deployments import RentedDeployments
from provider.gateway.server import Gateway
from provider.gateway.streams.kept_events import EVENTS_FILE, KeptEvents
from provider.gateway.trial_build import TrialBuild
from provider.gateway.verdict import Screen, screen_of
from provider.gateway.watched_objects import WatchedObjects, read_or_known, with_trouble
from provider.inventory.cards import Cards
from provider.inventory.ledger import Ledger
from provider.lifecycle.loop import LeaseLoop
from provider.lifecycle.state import tenant_text
from provider.market.book import Market
from provider.market.public_sources import PublicSources
from provider.market.screening import Screening
from provider.metrics import INVENTORY_REQUESTS
from provider.observe.scrape import Scrape
from provider.precedence import Precedence
from provider.settings import GatewayForm

__all__ = ["GatewaySources", "adopted_placements", "kept_events", "provider_gateway", "public_screen"]


@dataclass(frozen=True, slots=True)
class GatewaySources:
    """The other parts, as far as the gateway uses them. `status`: the status of this moment."""

    backends: Backends
    chain_id: str
    market: Market
    ledger: Ledger
    leases: LeaseLoop
    cards: Cards
    build: TrialBuild
    objects: WatchedObjects
    rented: RentedDeployments
    status: Callable[[], ProviderStatus]
    scrape: Scrape
    precedence: Precedence
    kept_events: KeptEvents
    maintenance: Callable[[LeaseId], str] = lambda _: ""

    async def current_status(self) -> ProviderStatus:
        return self.status()

    async def exposition(self, accept: str) -> tuple[bytes, str]:
        return self.scrape.exposition(accept)

    def is_tenant(self, address: str) -> bool:
        return address in self._owners()

    def tenants(self) -> frozenset[str]:
        """Every account of which `is_tenant` is true."""
        return frozenset(self._owners())

    def _owners(self) -> Iterator[str]:
        """Of each lease, and of each order that a bid may have."""
        yield from (lease.owner for lease in self.leases.statuses)
        yield from (order.owner for order in self.ledger.orders())

    def troubles(self) -> dict[str, str]:
        """What the tenant of each lease reads: why its newest manifest does not run, and of maintenance."""
        texts = ((str(lease), self.text(lease)) for lease in self.leases.statuses)
        return {lease: text for lease, text in texts if text}

    def text(self, lease: LeaseId) -> str:
        texts = (tenant_text(self.leases.statuses.get(lease)), self.maintenance(lease))
        return "; ".join(filter(None, texts))


def provider_gateway(sources: GatewaySources) -> Gateway | GatewayProcess:
    """The gateway in the form that LESSOR_GATEWAY_PROCESS names. It is not started."""
    backends, refusals = sources.backends, Refusals()
    config = gateway_config(backends.settings, backends.address, passwords=backends.certificate_passwords)
    intake = _intake(sources, config, refusals)
    if backends.settings.gateway_form is GatewayForm.INSIDE:
        return _inside(sources, config, intake=intake, refusals=refusals)
    child = GatewayChild(backends.clock) if backends.settings.gateway_form is GatewayForm.CHILD else None
    return GatewayProcess(
        config,
        clock=backends.clock,
        chain_id=sources.chain_id,
        tenants=sources.tenants,
        troubles=sources.troubles,
        calls=_calls(sources, intake),
        child=child,
    )


def kept_events(backends: Backends) -> KeptEvents:
    """The record of leases' events; without a file where another process writes it."""
    inside = backends.settings.gateway_form is GatewayForm.INSIDE
    return KeptEvents(backends.settings.home / EVENTS_FILE if inside else None, backends.clock.now)


def public_screen(backends: Backends, market: Market) -> Screen:
    """The screening for anybody."""
    return screen_of(Screening(market, public=PublicSources(market, backends.public_chain)))


def _intake(sources: GatewaySources, config: GatewayConfig, refusals: Refusals) -> ManifestIntake:
    backends = sources.backends
    return ManifestIntake(
        config,
        chain=backends.chain,
        cluster=backends.cluster,
        bus=backends.bus,
        clock=backends.clock,
        placements=adopted_placements(sources.market, sources.cards),
        build=sources.build,
        strangers=backends.public_chain,
        is_tenant=sources.is_tenant,
        refusals=refusals,
        rented=sources.rented.get,
        precedence=sources.precedence,
    )


def _inside(sources: GatewaySources, config: GatewayConfig, *, intake: ManifestIntake, refusals: Refusals) -> Gateway:
    backends = sources.backends
    return Gateway(
        config,
        chain=backends.chain,
        cluster=backends.cluster,
        pods=backends.cluster.pods,
        clock=backends.clock,
        status=sources.current_status,
        kube_version=backends.cluster.version,
        intake=intake,
        migrations=sources.leases.claims,
        read_lease=_lease_reader(sources),
        strangers=backends.public_chain,
        is_tenant=sources.is_tenant,
        metrics=sources.exposition if backends.settings.metrics_on_gateway else None,
        refusals=refusals,
        kept_events=sources.kept_events,
    )


def _calls(sources: GatewaySources, intake: ManifestIntake) -> Mapping[str, Call]:
    return gateway_calls(
        intake=intake,
        migrations=sources.leases.claims,
        status=sources.current_status,
        screen=public_screen(sources.backends, sources.market),
        metrics=sources.exposition,
    )


def adopted_placements(market: Market, cards: Cards) -> Placements:
    """The placement in a lease's reservation. A manifest that comes while the provider starts waits for the adoption of
    its leases: until then no reservation would mean that no GPU is reserved.
    """

    async def placements(lease: LeaseId) -> Mapping[int, GpuPlacement | None] | None:
        await market.adopted.wait()
        found = cards(lease)
        INVENTORY_REQUESTS.labels("lookup", "not-found" if found is None else "found").inc()
        return found

    return placements


def _lease_reader(sources: GatewaySources) -> ReadLease:
    """Reads what the cluster holds of a lease, and adds the trouble that the lease loop has with it."""
    backends = sources.backends
    read = read_or_known(sources.objects, lease_reader(backends.cluster, backends.settings.manifest_namespace))
    return with_trouble(read, sources.text)
