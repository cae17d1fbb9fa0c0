"""Numbered behaviours of operators.md §10 about leased addresses and hostnames that no other test has. Where this
provider has another part for it, the test asks that part.
"""

from __future__ import annotations

import json

import pytest

from components.leased_ip import leased_ip_service
from lease.addresses import leased_ip_name
from lease.ids import LeaseId, OrderId, namespace_name
from lease.spec import IngressMode
from provider.errors import SettingsError
from provider.inventory.capacity import Overcommit
from provider.inventory.ledger import Ledger
from provider.inventory.matcher import place
from provider.inventory.reservation import Reservation
from provider.inventory.snapshot import Inventory
from provider.operators.ignore_list import IgnoreLimits, IgnoreList
from provider.protocols.cluster import PROVIDER_LEASED_IP
from provider.settings import load_settings
from tests.components.specs import leased_ip, spec
from tests.provider.inventory.test_ledger import US, cluster
from tests.provider.inventory.test_ledger import spec as group_spec
from tests.provider.lifecycle.world import a_group, a_lease
from tests.provider.operators.around import HOST, addresses, claim, get, hostnames, leased, manifest, running, settled
from tests.world.cluster import FakeCluster, unreachable
from tests.world.patience import eventually
from tests.world.virtual import VirtualClock

FIRST, SECOND = a_lease(1), a_lease(2)


def reserved(inventory: Inventory, *ips: int) -> Ledger:
    """A ledger with an order for each of these numbers of addresses, none of which has its addresses yet."""
    ledger = Ledger(US)
    for number, count in enumerate(ips, 1):
        order = OrderId("akash1tenant", number, 1, 1)
        found = place(order, group_spec(100, ips=count), snapshot=ledger.free(inventory), overcommit=Overcommit())
        assert isinstance(found, Reservation)
        ledger.reserve(found)
    return ledger


def in_use(count: int) -> dict[str, frozenset[str]]:
    return {f"203.0.113.{number}": frozenset({f"lease-{number}"}) for number in range(count)}


def test_21_addresses_of_reservations_count_until_they_are_in_use() -> None:
    inventory = cluster(4000, address_count=10, addresses=in_use(4))
    assert reserved(inventory, 2, 1).free(inventory).free_addresses == 3


def test_22_more_reserved_than_free_leaves_none_and_not_less() -> None:
    ledger = reserved(cluster(4000, address_count=10), 4)
    assert ledger.free(cluster(4000, address_count=3, addresses=in_use(2))).free_addresses == 0


def test_23_without_addresses_none_is_free() -> None:
    assert Ledger(US).free(cluster(4000)).free_addresses == 0


def test_25_the_namespace_of_a_lease() -> None:
    lease = LeaseId("akash1owner", 12345, 1, 1, "akash1provider")
    assert namespace_name(lease) == "43bod7mpg1gg81ipihbrvq3t182qlva1kh8ueoldpk94a"


async def test_26_to_28_a_claim_is_shown_when_it_is_added_or_changed_and_is_gone_when_deleted() -> None:
    fake = FakeCluster()
    async with running(addresses(fake)) as url:
        fake.put(leased(FIRST, port=10001))

        async def has(count: int) -> bool:
            return len(json.loads((await get(f"{url}/state"))[1] or "{}").get(str(FIRST), ())) == count

        await eventually(lambda: has(1))
        fake.put(leased(FIRST, port=10001, address="203.0.113.9"))
        fake.put(leased(FIRST, port=10002))
        await eventually(lambda: has(2))
        for name in fake.named(PROVIDER_LEASED_IP):
            fake.remove((PROVIDER_LEASED_IP.api_version, PROVIDER_LEASED_IP.kind, "lease", name))
        await eventually(lambda: has(0))


async def test_30_to_31_a_claim_from_before_is_known_and_the_same_claim_again_is_no_event() -> None:
    fake = FakeCluster()
    fake.put(leased(FIRST, port=100))
    operator = addresses(fake)
    async with running(operator) as url:
        await settled(f"{url}/usage")
        (name,) = operator.state.claims
        before = operator.state.claims[name]
        again = leased(FIRST, port=100)
        fake.put({**again, "metadata": {**again["metadata"], "annotations": {"somebody": "was here"}}})
        fake.put(leased(FIRST, port=101))
        await eventually(lambda: len(operator.state.claims) == 2)
        assert operator.state.claims[name] is before, "the time of its last event stays"
        fake.put(leased(SECOND, port=100))
        await eventually(lambda: operator.state.claims[name][0].lease == SECOND)


def test_46_a_list_beyond_its_limit_is_pruned_below_it() -> None:
    ignored = IgnoreList(IgnoreLimits(failures=1, entries=19), VirtualClock())
    for dseq in range(20):
        ignored.add_error(a_lease(dseq + 1), LookupError("resource not found: manifest"))
    assert len(ignored) == 20 and ignored.prune() and len(ignored) < 20


async def test_49_trouble_with_the_api_server_ignores_no_lease() -> None:
    fake = FakeCluster()
    fake.put(manifest(FIRST, a_group()))
    fake.put(claim(HOST, FIRST))
    operator = hostnames(fake)
    async with running(operator):
        await eventually(lambda: HOST in operator.state.managed)

        def away(operation: str, kind: str, name: str) -> None:
            raise unreachable()

        fake.before = away
        for _ in range(100):
            await operator.check_all()
    assert len(operator.ignored) == 0


def test_d6_names_of_the_service_and_of_the_claim() -> None:
    one = leased_ip(service="web", external_port=80, proto="TCP")
    assert leased_ip_service(spec(), one)["metadata"]["name"] == "web-ip-80-tcp"
    assert leased_ip_name("akash1x-ip-meow", proto="TCP", external_port=80) == "akash1x-ip-meow-tcp-80"


def test_d8_an_unknown_ingress_mode_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one kind of gateway here, so that there is no setting `gateway-provider`."""
    monkeypatch.setenv("AP_INGRESS_MODE", "x")
    with pytest.raises(SettingsError, match=r"AP_INGRESS_MODE.*x") as refused:
        load_settings()
    assert all(mode.value in str(refused.value) for mode in IngressMode)
