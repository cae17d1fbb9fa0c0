"""Whether the hostnames of a screening could be had: the checks that a manifest with them would meet, of now."""

from __future__ import annotations

from collections.abc import Sequence

from lease.validation.manifest import hostname_valid
from provider.claims.hostnames import HostnameClaim, HostnameRefusedError, check_hostnames, host_claims
from provider.gateway.grpc.bid_screening import BlockedHostnames
from provider.protocols import Cluster
from provider.protocols.cluster import PROVIDER_HOST

__all__ = ["screened_hostnames"]

_NOBODY = ""
"""Who asks does not say who he is, so a name that he holds himself is told as in use too."""


def screened_hostnames(cluster: Cluster, *, namespace: str, blocked: Sequence[str]) -> BlockedHostnames:
    """Reads the claims in `namespace` for each question that names hosts; the API server that fails raises
    `ClusterError`.
    """

    async def judge(hostnames: Sequence[str]) -> Sequence[str]:
        if not hostnames:
            return ()
        claims = host_claims(await cluster.list(PROVIDER_HOST, namespace=namespace))
        problems = (_problem(name, claims, blocked) for name in dict.fromkeys(map(str.lower, hostnames)))
        return tuple(problem for problem in problems if problem)

    return judge


def _problem(hostname: str, claims: dict[str, HostnameClaim], blocked: Sequence[str]) -> str:
    if not hostname_valid(hostname):
        return f'invalid hostname "{hostname}"'
    try:
        check_hostnames((hostname,), _NOBODY, claims=claims, blocked=blocked)
    except HostnameRefusedError as refused:
        return str(refused)
    return ""
