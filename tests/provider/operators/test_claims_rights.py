"""The rights of the operators for hostnames and addresses: what they ask, nothing more and nothing less."""

from __future__ import annotations

from collections.abc import Iterable

from provider.protocols.cluster import IP_ADDRESS_POOL, MANIFEST, PROVIDER_HOST, PROVIDER_LEASED_IP, SERVICE, Kind
from stacks.cluster.claims_rights import HOSTNAME_RULES, IP_CLUSTER_RULES, IP_METALLB_RULES, IP_RULES, Rule
from tests.provider.lifecycle.world import a_lease
from tests.provider.operators.around import addresses, claim, get, hostnames, leased, running, settled
from tests.world.cluster import FakeCluster
from tests.world.patience import eventually

KINDS = {kind.kind: kind for kind in (MANIFEST, PROVIDER_HOST, PROVIDER_LEASED_IP, IP_ADDRESS_POOL, SERVICE)}
WATCHED = (MANIFEST, PROVIDER_HOST, PROVIDER_LEASED_IP)
"""A list of one of these is the beginning of a watch."""


def listening(cluster: FakeCluster) -> set[tuple[str, str, str]]:
    """(API group, resource, verb) of each request from now on."""
    asked: set[tuple[str, str, str]] = set()

    def note(operation: str, kind: str, name: str) -> None:
        found = KINDS[kind]
        group = found.api_version.rpartition("/")[0]
        if operation == "apply":
            asked.add((group, f"{found.plural}/status", "patch"))
        else:
            asked.add((group, found.plural, operation))
            asked.update({(group, found.plural, "watch")} if _is_watched(found) else ())

    cluster.before = note
    return asked


def _is_watched(kind: Kind) -> bool:
    return kind in WATCHED


def granted(*rules: Iterable[Rule]) -> set[tuple[str, str, str]]:
    return {(group, name, verb) for some in rules for group, names, verbs in some for name in names for verb in verbs}


async def test_the_hostname_operator_uses_exactly_its_rights() -> None:
    cluster = FakeCluster()
    cluster.put(claim("a.example.com", a_lease(1)))
    asked, operator = listening(cluster), hostnames(cluster)
    async with running(operator):
        await eventually(lambda: bool(operator.state.claims))
        await operator.check_all()
    assert asked == granted(HOSTNAME_RULES)


async def test_the_ip_operator_uses_exactly_its_rights() -> None:
    cluster = FakeCluster()
    cluster.put(leased(a_lease(1)))
    asked = listening(cluster)
    async with running(addresses(cluster)) as url:
        await settled(f"{url}/usage")
        await get(f"{url}/ip-lease-status/{a_lease(1).owner}/1/1/1")
    assert asked == granted(IP_RULES, IP_METALLB_RULES, IP_CLUSTER_RULES)
