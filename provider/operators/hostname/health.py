"""The health of a hostname: whether its DNS entry leads to this provider, whether the edge answers for it, and whether
the edge's certificate is valid for it.

No check connects to what a hostname resolves to: the DNS answer is compared with the provider's own addresses, and the
provider's own edge is asked with the hostname as Host and SNI.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from lease.hostnames import route_name
from provider.claims.edge import AskEdge, EdgeAnswer, asked_name, serves
from provider.protocols.cluster import PROVIDER_HOST

__all__ = ["EdgeChecks", "HostnameHealth", "Resolve", "check_health", "health_status"]

Resolve: TypeAlias = Callable[[str], Awaitable[Collection[str]]]
"""Hostname → its addresses; raises OSError when there are none, also for no answer in time."""


@dataclass(frozen=True, slots=True)
class HostnameHealth:
    """Each field is empty when all is well or nothing was checked, else it says what is wrong."""

    dns: str = ""
    answer: str = ""
    certificate: str = ""

    @property
    def message(self) -> str:
        return "; ".join(filter(None, (self.dns, self.answer, self.certificate)))


@dataclass(frozen=True, slots=True)
class EdgeChecks:
    """What a check may use. `addresses`: the provider's own, at which its edge is reached from outside; empty: DNS is
    not compared. `http` and `https` None: the edge is not asked that way.
    """

    resolve: Resolve
    addresses: Collection[str] = field(default=())
    http: AskEdge | None = None
    https: AskEdge | None = None


async def check_health(hostname: str, checks: EdgeChecks) -> HostnameHealth:
    """One check. A wildcard is checked by a name below it. Raises nothing."""
    name = asked_name(hostname)
    dns = await _dns_problem(name, checks) if checks.addresses else ""
    http = await checks.http(name) if checks.http is not None else None
    https = await checks.https(name) if checks.https is not None else None
    return HostnameHealth(dns, _answer_problem(http), _certificate_problem(https))


async def _dns_problem(name: str, checks: EdgeChecks) -> str:
    try:
        found = await checks.resolve(name)
    except (OSError, UnicodeError):
        return "the name does not resolve"
    own = {_shortest(address) for address in checks.addresses}
    others = sorted({_shortest(address) for address in found} - own)
    if not others:
        return "" if found else "the name does not resolve"
    shown = ", ".join(others[:4])
    return f"the name resolves to {shown}, which is no address of this provider"


def _answer_problem(answer: EdgeAnswer | None) -> str:
    if answer is None or serves(answer):
        return ""
    return answer.problem or f"the edge answers {answer.status}"


def _certificate_problem(answer: EdgeAnswer | None) -> str:
    if answer is None:
        return ""
    if answer.certificate:
        return f"the edge's certificate is not valid for it: {answer.certificate}"
    return answer.problem


def _shortest(address: str) -> str:
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address


def health_status(hostname: str, health: HostnameHealth, *, namespace: str, sequence: int) -> dict[str, Any]:
    """The status subresource of a ProviderHost."""
    return {
        "apiVersion": PROVIDER_HOST.api_version,
        "kind": PROVIDER_HOST.kind,
        "metadata": {"name": route_name(hostname), "namespace": namespace},
        "status": {
            "state": "unhealthy" if health.message else "healthy",
            "message": health.message,
            "sequence": sequence,
            "checks": {"dns": health.dns, "answer": health.answer, "certificate": health.certificate},
        },
    }
