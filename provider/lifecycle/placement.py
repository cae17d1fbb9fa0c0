"""Manifests that were accepted while their lease had no card: the card is asked for again whenever a spec is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lease.spec import LeaseSpec
from provider.inventory.cards import Cards
from provider.lifecycle.parts import MakeLeaseSpec
from provider.records.manifests import ManifestRecord

__all__ = ["placing"]


def placing(make: MakeLeaseSpec, cards: Cards) -> MakeLeaseSpec:
    """`make` with what `cards` says for each GPU service whose stored manifest names none. What is stored holds."""

    def placed(
        record: ManifestRecord, *, withheld: frozenset[str], addresses: Mapping[str, str], previous: LeaseSpec | None
    ) -> LeaseSpec:
        whole = _with_cards(record, cards)
        return make(whole, withheld=withheld, addresses=addresses, previous=previous)

    return placed


def _with_cards(record: ManifestRecord, cards: Cards) -> ManifestRecord:
    services, stored = record.group.services or (), record.placements
    wanted = {service.resources.id for service in services if service.resources.gpu_units}
    if all(stored.get(resource) for resource in wanted):
        return record
    known = {resource: card for resource, card in stored.items() if card}
    return replace(record, placements={**(cards(record.lease) or {}), **known})
