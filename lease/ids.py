"""Identifiers of the market (chain.md §2), and the names of Kubernetes objects made from them (kubernetes-objects.md
§1.1).
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from dataclasses import dataclass
from functools import lru_cache

__all__ = [
    "BidId",
    "DeploymentId",
    "GroupId",
    "LeaseId",
    "OrderId",
    "auto_hostname",
    "base32hex",
    "namespace_name",
    "parse_lease_id",
]


@dataclass(frozen=True, slots=True, order=True)
class DeploymentId:
    """A tenant's deployment: bech32 owner and dseq (non-zero uint64)."""

    owner: str
    dseq: int

    def __str__(self) -> str:
        return f"{self.owner}/{self.dseq}"


@dataclass(frozen=True, slots=True, order=True)
class GroupId:
    """One placement group of a deployment; gseq counts from 1."""

    owner: str
    dseq: int
    gseq: int

    @property
    def deployment(self) -> DeploymentId:
        return DeploymentId(self.owner, self.dseq)

    def __str__(self) -> str:
        return f"{self.owner}/{self.dseq}/{self.gseq}"


@dataclass(frozen=True, slots=True, order=True)
class OrderId:
    """One order of a group; oseq counts from 1 and grows with every closed order of the group."""

    owner: str
    dseq: int
    gseq: int
    oseq: int

    @property
    def group(self) -> GroupId:
        return GroupId(self.owner, self.dseq, self.gseq)

    @property
    def deployment(self) -> DeploymentId:
        return DeploymentId(self.owner, self.dseq)

    def bid_by(self, provider: str) -> LeaseId:
        """The id of `provider`'s bid on this order, which is also the id of the lease it may become."""
        return LeaseId(self.owner, self.dseq, self.gseq, self.oseq, provider)

    def __str__(self) -> str:
        return f"{self.owner}/{self.dseq}/{self.gseq}/{self.oseq}"


@dataclass(frozen=True, slots=True, order=True)
class LeaseId:
    """A bid, or the lease it became. bseq is always 0 on chain and not part of the text form (chain.md §2)."""

    owner: str
    dseq: int
    gseq: int
    oseq: int
    provider: str

    @property
    def order(self) -> OrderId:
        return OrderId(self.owner, self.dseq, self.gseq, self.oseq)

    @property
    def group(self) -> GroupId:
        return GroupId(self.owner, self.dseq, self.gseq)

    @property
    def deployment(self) -> DeploymentId:
        return DeploymentId(self.owner, self.dseq)

    def __str__(self) -> str:
        return f"{self.owner}/{self.dseq}/{self.gseq}/{self.oseq}/{self.provider}"


BidId = LeaseId


def parse_lease_id(text: str) -> LeaseId:
    """The lease of a text form. Raises ValueError."""
    parts = text.split("/")
    if len(parts) != 5 or not all(number.isascii() and number.isdigit() for number in parts[1:4]):
        raise ValueError(f"{text[:200]!r} is no lease id; the form is owner/dseq/gseq/oseq/provider")
    owner, dseq, gseq, oseq, provider = parts
    return LeaseId(owner, int(dseq), int(gseq), int(oseq), provider)


def base32hex(data: bytes) -> str:
    """RFC 4648 base32hex without padding, lower case: the alphabet of every derived name."""
    return base64.b32hexencode(data).decode().rstrip("=").lower()


@lru_cache(maxsize=4096)
def namespace_name(lease: LeaseId) -> str:
    """The name of a lease's namespace, Manifest object and stack: base32hex of the SHA-224 of its text form, 45
    characters.

    The result is cached, since every pass over a lease uses it many times.
    """
    return base32hex(hashlib.sha224(str(lease).encode()).digest())


@lru_cache(maxsize=4096)
def auto_hostname(lease: LeaseId, service: str, domain: str) -> str:
    """The hostname that a service gets under the provider's ingress domain (kubernetes-objects.md §6)."""
    return f"{base32hex(uuid.uuid5(uuid.NAMESPACE_DNS, f'{lease}{service}').bytes)}.{domain}"
