"""The maker of every `LeaseSpec`: the lease loop, `lessor diff` and the gateway's trial build use the same one.

The steps are visible in `SpecMaker.make`: the stored manifest, the GPU cards that it lacks, the claims (withheld
hostnames and addresses), the previous spec, and from these the new spec.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from lease.build import SpecSettings, lease_spec, sharing_keys
from lease.ids import LeaseId
from lease.spec import FORM, ClusterFacts, LeaseSpec
from provider.inventory.cards import Cards
from provider.records.manifests import ManifestRecord
from provider.settings import Settings

__all__ = ["BEFORE_THE_MANIFEST", "SpecInputs", "SpecMaker", "openable", "opening_spec", "spec_maker"]

_NO_ADDRESS = "0.0.0.0"  # noqa: S104 (no listener)
BEFORE_THE_MANIFEST = "0"
"""`first_resource_version` of a lease whose update may be opened before its manifest: no manifest ever had it.

The Go provider writes the version of the first manifest on the namespace and on the general network policy. An update
that is opened when the lease is won cannot know that version.
"""


@dataclass(frozen=True, slots=True)
class SpecInputs:
    """What one spec is made from. `withheld`: hostnames that another lease of the owner keeps. `addresses`: the leased
    address by sharing key, `pools`: the pool of an address that is in somebody else's. `previous`: the last version
    that was applied completely, None for a first deployment. `form`: of the objects; not the newest one while the
    tenant asks for nothing new. `moved`: the names of claims that were migrated away from the lease.
    """

    record: ManifestRecord
    previous: LeaseSpec | None = None
    withheld: frozenset[str] = frozenset()
    addresses: Mapping[str, str] = field(default_factory=dict)
    form: int = FORM
    moved: frozenset[str] = frozenset()
    pools: Mapping[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class SpecMaker:
    """Makes specs for one cluster (`facts`, which may be replaced when the cluster changes) and one provider's `rules`.

    `cards`: the ledger's cards for a lease whose stored manifest names none; without it only what is stored counts.
    `open_updates`: the engine may begin a first deployment before its manifest. `note` gets the inputs as they were
    handed in, and the spec that was made from them.
    """

    facts: ClusterFacts
    rules: SpecSettings = field(default_factory=SpecSettings)
    cards: Cards | None = None
    open_updates: bool = False
    note: Callable[[SpecInputs, LeaseSpec], None] | None = None

    def make(self, inputs: SpecInputs) -> LeaseSpec:
        """The spec that follows from `inputs`. Raises `SpecRefused`."""
        record = inputs.record if self.cards is None else _with_cards(inputs.record, self.cards)
        spec = self.build(replace(inputs, record=record))
        if self.open_updates and inputs.previous is None:
            spec = openable(spec)
        if self.note is not None:
            self.note(inputs, spec)
        return spec

    def build(self, inputs: SpecInputs) -> LeaseSpec:
        """`lease.build.lease_spec` with this cluster's facts and this provider's rules. Raises `SpecRefused`."""
        record = inputs.record
        return lease_spec(
            lease=record.lease,
            group=record.group,
            resource_version=record.resource_version,
            placements=record.placements,
            addresses=inputs.addresses,
            cluster=self.facts,
            settings=self.rules,
            withheld=inputs.withheld,
            previous=inputs.previous,
            form=inputs.form,
            pools=inputs.pools,
        )

    def unclaimed(self, record: ManifestRecord) -> LeaseSpec:
        """The first version as it would be with every hostname, and with no particular address: what it is made of
        without any claim. Raises `SpecRefused`.
        """
        keys = sharing_keys(record.lease.owner, record.group)
        return self.make(SpecInputs(record, addresses=dict.fromkeys(keys, _NO_ADDRESS)))

    def opening(self, lease: LeaseId) -> LeaseSpec | None:
        """The part of the spec that is known when the lease is won; None when updates are not opened early."""
        return opening_spec(lease, self.facts) if self.open_updates else None


def spec_maker(settings: Settings, facts: ClusterFacts) -> SpecMaker:
    """The maker of this provider's settings, without the ledger's cards."""
    rules = SpecSettings(
        static_hosts=settings.ingress_static_hosts,
        ingress_domain=settings.ingress_domain,
        overcommit_cpu_percent=settings.overcommit_cpu,
        overcommit_memory_percent=settings.overcommit_memory,
        overcommit_storage_percent=settings.overcommit_storage,
        runtime_class=settings.runtime_class,
        user_namespaces=settings.user_namespaces,
    )
    return SpecMaker(facts, rules, open_updates=bool(settings.open_updates))


def opening_spec(lease: LeaseId, facts: ClusterFacts) -> LeaseSpec:
    """Namespace and isolation only: they depend on the lease and on the cluster's facts (toolchain.md §3)."""
    return LeaseSpec(
        form=FORM, lease=lease, group="", first_resource_version=BEFORE_THE_MANIFEST, services=(), cluster=facts
    )


def openable(spec: LeaseSpec) -> LeaseSpec:
    """The spec of a first deployment, changed so that an update that was opened for its lease fits."""
    return spec.model_copy(update={"first_resource_version": BEFORE_THE_MANIFEST})


def _with_cards(record: ManifestRecord, cards: Cards) -> ManifestRecord:
    """`record` with the ledger's card for each GPU service that has none stored. A stored card is never replaced.

    The ledger is asked each time a spec is made: a manifest may have been accepted while its lease had no card.
    """
    services, stored = record.group.services or (), record.placements
    wanted = {service.resources.id for service in services if service.resources.gpu_units}
    if all(stored.get(resource) for resource in wanted):
        return record
    known = {resource: card for resource, card in stored.items() if card}
    return replace(record, placements={**(cards(record.lease) or {}), **known})
