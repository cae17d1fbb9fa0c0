"""The price of AKT from the oracle of the simulated chain, and the file in which pricing reads it."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path

import pytest
from akash.oracle.v2 import query_pb2
from structlog.testing import capture_logs

from devnet.chain import SimulatedChain
from provider.chain.comet import CometChain
from provider.chain.oracle_query import akt_price
from provider.daemon.akt_price import follow_akt_price
from provider.errors import ChainError, PricingError
from provider.market.pricing.akt_rate import Rates, file_source
from tests.provider.chain.world import PROVIDER, client
from tests.world.patience import eventually
from tests.world.virtual import VirtualClock


class Answer:
    """A node that gives one answer to every query."""

    address = "https://node.example"

    def __init__(self, **price: object) -> None:
        self.reply = query_pb2.QueryAggregatedPriceResponse()
        self.reply.price_health.is_healthy = bool(price.pop("healthy", True))
        self.reply.price_health.failure_reason.extend(["too few sources"] if price.pop("why", False) else [])
        for name, value in price.items():
            setattr(self.reply.aggregated_price, name, value)
        self.value, self.height = self.reply.SerializeToString(), 7

    async def query(self, path: str, data: bytes) -> Answer:
        assert path == "/akash.oracle.v2.Query/AggregatedPrice" and b"akt" in data
        return self


async def test_a_chain_whose_oracle_has_no_price_says_so() -> None:
    async with SimulatedChain.start(block_seconds=0.1) as node, client(node.rpc_address, index=PROVIDER) as chain:
        await eventually(lambda: _has_blocks(chain))
        with pytest.raises(ChainError, match="AggregatedPrice"):
            await chain.akt_price()


async def _has_blocks(chain: CometChain) -> bool:
    return (await chain.head()).height > 0


async def test_a_wire_price_becomes_dollars() -> None:
    node = Answer(twap="1234500000000000000")
    node.reply.aggregated_price.timestamp.seconds = 1_700_000_000
    node.value = node.reply.SerializeToString()
    assert await akt_price(node) == (Decimal("1.2345"), 1_700_000_000.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("price", "problem"),
    [
        ({"twap": "1" + "0" * 18, "healthy": False}, "stale, or too few sources"),
        ({"twap": "1" + "0" * 18, "healthy": False, "why": True}, "too few sources"),
        ({"twap": "0"}, "not believed"),
        ({"twap": "-1" + "0" * 18}, "not believed"),
        ({"twap": "9" * 60}, "not believed"),
        ({"twap": "1.5"}, "impossible value"),
        ({"twap": "x"}, "impossible value"),
        ({}, "not believed"),
    ],
)
async def test_a_price_that_cannot_be_relied_on_is_none(price: dict[str, object], problem: str) -> None:
    with pytest.raises(ChainError, match=problem):
        await akt_price(Answer(**price))  # type: ignore[arg-type]


@pytest.mark.virtual_time
async def test_the_file_has_the_last_price_with_its_age_and_a_silent_chain_is_named_once(tmp_path: Path) -> None:
    clock, file = VirtualClock(), tmp_path / "akt.price"
    answers: list[tuple[Decimal, float] | None] = [(Decimal("1.25"), 1_700_000_000.0)]

    async def ask() -> tuple[Decimal, float]:
        if answers[-1] is None:
            raise ChainError("https://node.example", "no answer")
        return answers[-1]

    task = asyncio.create_task(follow_akt_price(ask, file, clock=clock))
    while not file.exists():
        await asyncio.sleep(1)
    assert (file.read_text(), file.stat().st_mtime, file.stat().st_mode & 0o77) == ("1.25\n", 1_700_000_000.0, 0)
    rates = Rates(file_source(file), max_age_s=3600, now=lambda: 1_700_003_600.0)
    assert rates.usd_per_akt() == Decimal("1.25")
    answers.append(None)
    with capture_logs() as logs:
        await asyncio.sleep(600)
    assert [each["event"] for each in logs] == ["market.akt_price_unknown"] and file.read_text() == "1.25\n"
    with pytest.raises(PricingError, match="3601 s old"):
        Rates(file_source(file), max_age_s=3600, now=lambda: 1_700_003_601.0).usd_per_akt()
    task.cancel()
