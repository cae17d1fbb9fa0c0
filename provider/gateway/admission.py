"""Which connections are admitted: so many in all, so many of one address. Nothing is known of a peer at this point but
its address.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from provider.gateway.refusals import Refusals

__all__ = ["Admission", "ConnectionLimits", "peer_group"]

_IPV6_HOST_BITS = 64


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Connections at one time, and the seconds that a TLS handshake may take."""

    connections: int = 4096
    of_one_address: int = 128
    handshake_s: float = 5.0


class Admission:
    """The connections that are open, by peer."""

    def __init__(self, limits: ConnectionLimits, refusals: Refusals) -> None:
        self.limits = limits
        self.refusals = refusals
        self._open: Counter[str] = Counter()

    @property
    def connections(self) -> int:
        return self._open.total()

    def admit(self, address: str) -> bool:
        """Whether a new connection of `address` may stay; it is then counted until `release`."""
        peer = peer_group(address)
        if self._open.total() >= self.limits.connections:
            self.refusals.count("connections in all", peer=peer)
            return False
        if self._open[peer] >= self.limits.of_one_address:
            self.refusals.count("connections of one address", peer=peer)
            return False
        self._open[peer] += 1
        return True

    def release(self, address: str) -> None:
        peer = peer_group(address)
        self._open[peer] -= 1
        if self._open[peer] <= 0:
            del self._open[peer]


def peer_group(address: str) -> str:
    """What limits count by: an IPv4 address, or the /64 network of an IPv6 address, which one host has for itself."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(IPv6Address(int(found) >> _IPV6_HOST_BITS << _IPV6_HOST_BITS)) + "/64"
    return str(found)
