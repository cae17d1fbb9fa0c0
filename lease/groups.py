"""Group specs: what a deployment requests from the market, one for each placement (sdl-and-manifest.md §2)."""

from __future__ import annotations

from dataclasses import dataclass

from lease.resources import Attribute, Price, Resources

__all__ = ["GroupSpec", "Requirements", "ResourceUnit", "SignedBy"]


@dataclass(frozen=True, slots=True)
class SignedBy:
    """Auditors (bech32); None where the document gave none (JSON null)."""

    all_of: tuple[str, ...] | None = None
    any_of: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Requirements:
    signed_by: SignedBy = SignedBy()
    attributes: tuple[Attribute, ...] | None = None


@dataclass(frozen=True, slots=True)
class ResourceUnit:
    """`count` replicas of `resources`, each for at most `price` per block."""

    resources: Resources
    count: int
    price: Price


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """`oversize`: why the group was too large to be converted from the wire; its other members are then empty."""

    name: str
    requirements: Requirements
    units: tuple[ResourceUnit, ...]
    oversize: str = ""
