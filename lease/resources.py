"""Resources, attributes and prices as orders, manifests and reservations state them (sdl-and-manifest.md §2–3)."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum

__all__ = ["Attribute", "Endpoint", "EndpointKind", "Price", "Resources", "Volume"]


@dataclass(frozen=True, slots=True, order=True)
class Attribute:
    """A key and a value; a key is a pattern only on the requiring side (bidding.md §3.1)."""

    key: str
    value: str


class EndpointKind(IntEnum):
    """The kind of endpoint that a global expose requests (chain.md §3)."""

    SHARED_HTTP = 0
    RANDOM_PORT = 1
    LEASED_IP = 2

    @classmethod
    def _missing_(cls, value: object) -> EndpointKind | None:
        """A kind that this version does not know, within 32 bits: it is hashed as it is and takes no slot, as in Go."""
        if not isinstance(value, int) or not -(2**31) <= value < 2**31:
            return None
        unknown = int.__new__(cls, value)
        unknown._name_, unknown._value_ = f"KIND_{value}", value
        return unknown


@dataclass(frozen=True, slots=True)
class Endpoint:
    kind: EndpointKind = EndpointKind.SHARED_HTTP
    sequence_number: int = 0


@dataclass(frozen=True, slots=True)
class Volume:
    """One storage entry. `attributes` are sorted by key: `class` before `persistent`."""

    name: str
    size_bytes: int
    attributes: tuple[Attribute, ...] = ()

    def attribute(self, key: str) -> str | None:
        return next((item.value for item in self.attributes if item.key == key), None)

    @property
    def persistent(self) -> bool:
        return self.attribute("persistent") in ("1", "t", "T", "TRUE", "true", "True")

    @property
    def storage_class(self) -> str | None:
        return self.attribute("class")


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of one replica. `id` connects a manifest service with its unit in the order.

    `endpoints` is None where a document had null, which affects the hash; SDLs always give lists. `storage` is None
    where a document had null, an empty list or nothing; none of them is written or hashed.
    `absent` names those of cpu, memory and gpu that a tenant's JSON left out or set to null; such a manifest is
    refused.
    """

    id: int
    cpu_milli: int
    memory_bytes: int
    storage: tuple[Volume, ...] | None
    gpu_units: int = 0
    endpoints: tuple[Endpoint, ...] | None = ()
    cpu_attributes: tuple[Attribute, ...] = ()
    memory_attributes: tuple[Attribute, ...] = ()
    gpu_attributes: tuple[Attribute, ...] = ()
    absent: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Price:
    """An amount per block, at most 18 decimals."""

    denom: str
    amount: Decimal
