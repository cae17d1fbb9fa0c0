"""A lease's objects by purpose, as they are registered."""

from __future__ import annotations

from dataclasses import dataclass

from components.labels import Object

__all__ = ["AddressPart", "LeaseParts", "ServicePart"]


@dataclass(frozen=True, slots=True)
class ServicePart:
    """The objects of one service: `access` is ServiceAccount, Role and RoleBinding or empty; `services` has 0 to 2
    Services.
    """

    name: str
    access: tuple[Object, ...]
    workload: Object
    services: tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class AddressPart:
    """One leased address: `shared` (pool and advertisement, or nothing when the address is in somebody else's pool)
    outlives the lease; `services` belong to this lease alone.
    """

    sharing_key: str
    shared: tuple[Object, ...]
    services: tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class LeaseParts:
    """A lease's objects by purpose. Secrets come first, since they take longest to register (toolchain.md §3)."""

    namespace: Object
    credentials: tuple[Object, ...]
    bounds: tuple[Object, ...]
    policies: tuple[Object, ...]
    services: tuple[ServicePart, ...]
    hostnames: tuple[Object, ...]
    addresses: tuple[AddressPart, ...]
