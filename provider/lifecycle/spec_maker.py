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

__all__ = ["SpecInputs", "SpecMaker", "spec_maker"]

_NO_ADDRESS = "0.0.0.0"  # noqa: S104 (no listener)


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


_MadeFrom = tuple[SpecInputs, ClusterFacts, SpecSettings]
_MADE = 256
"""The leases whose last spec is kept."""


@dataclass(eq=False)
class SpecMaker:
    """Makes specs for one cluster (`facts`, which may be replaced when the cluster changes) and one provider's `rules`.

    `cards`: the ledger's cards for a lease whose stored manifest names none; without it only what is stored counts.
    `note` gets the inputs as they were handed in, and the spec that was made from them.
    """

    facts: ClusterFacts
    rules: SpecSettings = field(default_factory=SpecSettings)
    cards: Cards | None = None
    note: Callable[[SpecInputs, LeaseSpec], None] | None = None
    _made: dict[LeaseId, tuple[_MadeFrom, LeaseSpec]] = field(default_factory=dict, init=False, repr=False)
    """The last spec of the leases that were checked last: most checks of a lease find what the one before found."""

    def make(self, inputs: SpecInputs) -> LeaseSpec:
        """The spec that follows from `inputs`. Raises `SpecRefused`."""
        record = inputs.record if self.cards is None else _with_cards(inputs.record, self.cards)
        spec = self.build(replace(inputs, record=record))
        if self.note is not None:
            self.note(inputs, spec)
        return spec

    def build(self, inputs: SpecInputs) -> LeaseSpec:
        """`lease.build.lease_spec` with this cluster's facts and this provider's rules. Raises `SpecRefused`."""
        made_from = inputs, self.facts, self.rules
        before = self._made.pop(inputs.record.lease, None)
        made = before[1] if before is not None and before[0] == made_from else _built(*made_from)
        self._made[inputs.record.lease] = made_from, made
        if len(self._made) > _MADE:
            del self._made[next(iter(self._made))]
        return made

    def unclaimed(self, record: ManifestRecord) -> LeaseSpec:
        """The first version as it would be with every hostname, and with no particular address: what it is made of
        without any claim. Raises `SpecRefused`.
        """
        keys = sharing_keys(record.lease.owner, record.group)
        return self.make(SpecInputs(record, addresses=dict.fromkeys(keys, _NO_ADDRESS)))


def _built(inputs: SpecInputs, facts: ClusterFacts, rules: SpecSettings) -> LeaseSpec:
    record = inputs.record
    return lease_spec(
        lease=record.lease,
        group=record.group,
        resource_version=record.resource_version,
        placements=record.placements,
        addresses=inputs.addresses,
        cluster=facts,
        settings=rules,
        withheld=inputs.withheld,
        previous=inputs.previous,
        form=inputs.form,
        pools=inputs.pools,
    )


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
    return SpecMaker(facts, rules)


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
