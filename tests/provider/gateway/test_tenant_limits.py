"""What one tenant may take: requests a second and connections; each refusal is 429 with a time, and is counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from provider.gateway.errors import RequestError
from provider.gateway.refusals import Refusals
from provider.gateway.tenant_limits import TenantLimits, TenantRates
from provider.metrics import GATEWAY_REFUSED
from tests.provider.gateway.accounts import NOW, Account
from tests.provider.gateway.manifests import TENANT
from tests.provider.gateway.world import new_world

PATH = "/lease/42/1/1/manifest"


class Lost:
    """A connection whose end a test decides."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def when_lost(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def lose(self) -> None:
        for call in self.calls:
            call()


def refused(limits: TenantLimits, owner: str, connection: Lost | None = None) -> str:
    with pytest.raises(RequestError) as caught:
        limits.take(owner, connection)
    assert (caught.value.status, caught.value.retry_after_s) == (429, 1)
    return caught.value.text


def test_a_tenant_has_so_many_requests_at_once_and_then_so_many_a_second() -> None:
    now, refusals = 0.0, Refusals()
    limits = TenantLimits(TenantRates(3, 2.0), refusals, now=lambda: now)
    for _ in range(3):
        limits.take("a", None)
    assert refused(limits, "a") == "too many requests of one tenant; try again later"
    limits.take("b", None)
    now = 1.0
    limits.take("a", None)
    limits.take("a", None)
    refused(limits, "a")
    assert refusals.total["requests of one tenant"] == 2


def test_other_rates_hold_from_now_on_and_open_connections_still_count() -> None:
    limits, connections = TenantLimits(TenantRates(3, 2.0, 2), Refusals(), now=lambda: 0.0), [Lost(), Lost()]
    limits.take("a", connections[0])
    limits.limit(TenantRates(1, 2.0, 1))
    assert refused(limits, "a", connections[1]) == "too many connections of one tenant; try again later"
    limits.take("a", connections[0])
    assert refused(limits, "a", connections[0]) == "too many requests of one tenant; try again later"


def test_connections_count_for_every_tenant_that_they_carry_until_they_are_lost() -> None:
    limits, connections = TenantLimits(TenantRates(connections=2), Refusals()), [Lost() for _ in range(3)]
    for connection in connections[:2]:
        for _ in range(2):
            limits.take("a", connection)
    assert refused(limits, "a", connections[2]) == "too many connections of one tenant; try again later"
    limits.take("b", connections[2])
    connections[0].lose()
    limits.take("a", connections[2])
    connections.append(Lost())
    refused(limits, "a", connections[3])
    for connection in connections[1:]:
        connection.lose()
    assert not limits._open
    assert not limits._carried


async def test_above_a_tenants_rate_the_answer_is_429_others_are_served_and_metrics_count_it(tmp_path: Path) -> None:
    world, other = new_world(tmp_path, tenants=TenantRates(2, 0.001)), Account.named("another tenant")
    world.clock.set(NOW)
    for account in (TENANT, other):
        world.chain.public_keys[account.address] = account.public
    counted = GATEWAY_REFUSED.labels("requests of one tenant")
    before = counted._value.get()
    async with world.running():
        answers = [await world.get(PATH, TENANT.token()) for _ in range(3)]
        assert [answer.status for answer in answers] == [404, 404, 429]
        assert answers[2].header("Retry-After") == "1"
        assert answers[2].text == "too many requests of one tenant; try again later\n"
        assert (await world.get(PATH, other.token())).status == 404
        assert (await world.get("/status", TENANT.token())).status == 200
    assert counted._value.get() == before + 1
