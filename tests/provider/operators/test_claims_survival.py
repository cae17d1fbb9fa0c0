"""The operators for hostnames and addresses survive what happens to an API server, to its objects and to clocks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from provider.kube.client import KubeCluster
from provider.operators.hostname.operator import HostnameOperator
from provider.operators.ip.operator import IpOperator
from provider.protocols.cluster import IP_ADDRESS_POOL
from tests.provider.lifecycle.world import a_group, a_lease
from tests.provider.operators.around import Answers, addresses, claim, get, hostnames, leased, manifest, running
from tests.world.api_server import ApiServerInMemory, RecordedCluster
from tests.world.patience import eventually
from tests.world.virtual import VirtualClock

FIRST = a_lease(1)
HOST_KEY = ("akash.network/v2beta2", "ProviderHost", "lease")
IP_KEY = ("akash.network/v2beta2", "ProviderLeasedIP", "lease")


@dataclass
class Running:
    """One operator over HTTP. `known`: the claims that it knows; `put` and `remove`: claims by number."""

    server: ApiServerInMemory
    url: str
    known: Callable[[], set[str]]
    named: Callable[[int], str]
    make: Callable[[int], dict[str, Any]]
    key: tuple[str, str, str]

    def put(self, *numbers: int) -> None:
        for number in numbers:
            self.server.cluster.put(self.make(number))

    def remove(self, number: int) -> None:
        self.server.cluster.remove((*self.key, self.named(number)))

    async def until_known(self, *numbers: int) -> None:
        await eventually(lambda: self.known() == {self.named(number) for number in numbers})


def _of_hostnames(operator: HostnameOperator) -> tuple[Callable[[], set[str]], Callable[[int], str], Any, Any]:
    def name(number: int) -> str:
        return f"h{number}.example.com"

    return lambda: set(operator.state.claims), name, lambda number: claim(name(number), FIRST), HOST_KEY


def _of_addresses(operator: IpOperator) -> tuple[Callable[[], set[str]], Callable[[int], str], Any, Any]:
    def make(number: int) -> dict[str, Any]:
        return leased(FIRST, port=1000 + number)

    return lambda: set(operator.state.claims), lambda number: str(make(number)["metadata"]["name"]), make, IP_KEY


@pytest.fixture(params=["hostname", "ip"])
async def operating(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Running]:
    cluster = RecordedCluster("lease", "metallb-system")
    cluster.put(manifest(FIRST, a_group()))
    server = ApiServerInMemory(cluster, tmp_path)
    await server.start()
    client = KubeCluster(server.kubeconfig, timeout_seconds=2)
    operator = hostnames(client) if request.param == "hostname" else addresses(client)
    parts = _of_hostnames(operator) if isinstance(operator, HostnameOperator) else _of_addresses(operator)
    try:
        async with running(operator) as url:
            found = Running(server, url, *parts)
            found.put(0)
            await found.until_known(0)
            yield found
    finally:
        await client.aclose()
        await server.stop()


async def test_a_restart_of_the_api_server_keeps_the_state_and_loses_no_change(operating: Running) -> None:
    operating.put(1)
    await operating.until_known(0, 1)
    await operating.server.stop()
    operating.remove(1)
    operating.put(2)
    assert operating.known() == {operating.named(0), operating.named(1)}, "what was known stays"
    await operating.server.start()
    await operating.until_known(0, 2)


async def test_the_hostname_operator_answers_and_the_ip_operator_says_503_while_the_api_server_is_away(
    operating: Running,
) -> None:
    """The Go provider's IP operator closes its barrier between two observations (operators.md §3.8)."""
    is_ip = operating.key == IP_KEY
    await operating.server.stop()

    async def settled() -> bool:
        return (await get(f"{operating.url}/health"))[0] == (503 if is_ip else 200)

    await eventually(settled)
    await operating.server.start()

    async def well() -> bool:
        return (await get(f"{operating.url}/health"))[0] == 200

    await eventually(well)


async def test_watches_that_end_in_a_burst_of_changes_lose_none(operating: Running) -> None:
    for number in range(1, 40):
        operating.put(number)
        if number % 7 == 0:
            operating.server.end_watches()
        if number % 3 == 0:
            operating.remove(number)
        await asyncio.sleep(0)
    await operating.until_known(0, *(number for number in range(1, 40) if number % 3))


async def test_a_version_that_is_too_old_lists_again(operating: Running) -> None:
    operating.put(1, 2)
    await operating.until_known(0, 1, 2)
    operating.remove(1)
    operating.server.expire()
    await operating.until_known(0, 2)
    operating.put(3)
    await operating.until_known(0, 2, 3)


@pytest.mark.parametrize(
    "line",
    [
        b'{"type": "ADDED", "object": {"metadata": {"name": 7, "labels": []}}}',
        b'{"type": "MODIFIED", "object": {"kind": "ProviderHost", "metadata": [], "spec": 1}}',
        b'{"type": "ADDED", "object": {"metadata": {"name": "x"}, "spec": "y", "status": [1]}}',
        b'{"type": "ERROR", "object": {"code": 500, "message": "etcd leader changed"}}',
        b"{}",
        b"not JSON",
    ],
)
async def test_a_malformed_event_stops_nothing(operating: Running, line: bytes) -> None:
    operating.server.raw.append(line)
    operating.put(1)
    await eventually(lambda: operating.named(1) in operating.known())


def damaged(obj: dict[str, Any]) -> list[dict[str, Any]]:
    """Claims of others that no schema would let through, or that older servers stored."""
    meta = obj["metadata"]
    lease_id = obj["spec"].get("lease_id", {})
    return [
        {**obj, "metadata": {**meta, "name": "no-labels", "labels": None}, "spec": None},
        {**obj, "metadata": {**meta, "name": "no-spec"}, "spec": []},
        {**obj, "metadata": {**meta, "name": "text"}, "spec": "x", "status": "y"},
        {
            **obj,
            "metadata": {**meta, "name": "numbers", "annotations": {"akash.network/claim.sequence": "9" * 40}},
            "spec": {**obj["spec"], "hostname": 7, "external_port": [], "lease_id": {**lease_id, "dseq": "x" * 50}},
        },
    ]


async def test_a_malformed_claim_hides_no_other(operating: Running) -> None:
    for one in damaged(operating.make(0)):
        operating.server.cluster.put(one)
    operating.put(1)
    await eventually(lambda: operating.named(1) in operating.known())
    operating.server.end_watches()
    for one in damaged(operating.make(0)):
        operating.server.cluster.put({**one, "metadata": {**one["metadata"], "labels": {"a": "b"}}})
    operating.put(2)
    await eventually(lambda: {operating.named(number) for number in (0, 1, 2)} <= operating.known())


@pytest.mark.parametrize("operating", ["ip"], indirect=True)
@pytest.mark.parametrize(
    "pool",
    [{"spec": None}, {"spec": {"addresses": "x"}}, {"spec": {"addresses": [None, 7, {}, "1.2.3.4-x", "::/0"]}}, {}],
)
async def test_a_malformed_pool_stops_no_count(operating: Running, pool: dict[str, Any]) -> None:
    meta = {"name": "office", "namespace": "metallb-system"}
    head = {"apiVersion": IP_ADDRESS_POOL.api_version, "kind": "IPAddressPool", "metadata": meta}
    operating.server.cluster.put({**head, **pool})
    operating.put(1)

    async def counted() -> bool:
        return '"InUse":1' in (await get(f"{operating.url}/usage"))[1]

    await eventually(counted)


@pytest.mark.parametrize("jump_s", [-86400.0, 10 * 365 * 86400.0])
async def test_a_jump_of_the_clock_delays_no_check(jump_s: float) -> None:
    """No wait depends on the wall clock; an entry of ignored leases only gets older."""
    clock = VirtualClock()
    cluster = RecordedCluster("lease", "metallb-system")
    cluster.put(claim("a.example.com", FIRST))
    answers = Answers("203.0.113.5")
    operator = hostnames(cluster, answers, clock=clock)
    async with running(operator):
        await eventually(lambda: bool(operator.state.claims))
        await operator.check_all()
        asked = len(answers.asked)
        clock.jump(jump_s)
        await operator.check_all()
        await operator.prune()
        await operator.refresh()
        assert len(answers.asked) == 2 * asked
        cluster.put(claim("b.example.com", FIRST))
        await eventually(lambda: len(operator.state.claims) == 2)
