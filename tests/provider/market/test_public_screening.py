"""What a screening for anybody may query: nothing through the market's own client, and no more than its budget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lease.groups import GroupSpec, SignedBy
from lease.resources import Attribute
from provider.errors import MarketError
from provider.market.public_sources import PublicSources
from provider.market.screening import Screening
from provider.store import open_database
from tests.provider.gateway.accounts import Account
from tests.provider.market.world import RECORD, US, World, make_spec, make_world
from tests.world.chain import FakeChain


@pytest.fixture
async def world(tmp_path: Path):
    database = await open_database(f"sqlite+aiosqlite:///{tmp_path}/market.db")
    yield make_world(database)
    await database.close()


@pytest.fixture
def public() -> FakeChain:
    chain = FakeChain()
    chain.providers[US] = RECORD
    return chain


def signed(*auditors: str) -> GroupSpec:
    spec = make_spec()
    return replace(spec, requirements=replace(spec.requirements, signed_by=SignedBy(any_of=auditors)))


def invented(first: int, count: int = 32) -> tuple[str, ...]:
    return tuple(Account.named(f"auditor {number}").address for number in range(first, first + count))


async def test_invented_auditors_cause_a_bounded_number_of_queries_and_none_of_the_markets(
    world: World, public: FakeChain
) -> None:
    screening = Screening(world.market, public=PublicSources(world.market, public))
    world.market.book.record, refused = RECORD, 0
    for number in range(6):
        try:
            _, found = await screening.screen(signed(*invented(100 * number)))
            assert found.bid is None
        except MarketError as error:
            refused += "too many auditors" in str(error)
    assert public.calls.count("audited_attributes") == 64
    assert refused == 4
    assert world.chain.calls == []


async def test_what_the_market_knows_of_an_auditor_is_not_queried_again(world: World, public: FakeChain) -> None:
    auditor = Account.named("auditor").address
    world.chain.audits[US, auditor] = (Attribute("region", "eu"),)
    known = await world.market.audits.signed_by(auditor)
    sources = PublicSources(world.market, public)
    assert await sources.signed_by(auditor) == known
    assert public.calls == []
    world.market.audits.forget(auditor)
    public.audits[US, auditor] = (Attribute("region", "us"),)
    assert await sources.signed_by(auditor) == (Attribute("region", "us"),)
    assert await sources.signed_by(auditor) == (Attribute("region", "us"),)
    assert public.calls.count("audited_attributes") == 1


async def test_a_text_that_is_no_address_has_signed_nothing_and_causes_no_query(
    world: World, public: FakeChain
) -> None:
    sources = PublicSources(world.market, public)
    for text in ("", "auditor", "akash1" + "q" * 38, "A" * 10_000, Account.named("x").address.upper()):
        assert await sources.signed_by(text) == ()
    assert public.calls == []


async def test_the_providers_record_is_the_markets_once_it_has_one(world: World, public: FakeChain) -> None:
    sources = PublicSources(world.market, public)
    assert await sources.record() == RECORD
    world.market.book.record = RECORD
    for _ in range(100):
        assert await sources.record() == RECORD
    assert public.calls.count("provider") == 1
