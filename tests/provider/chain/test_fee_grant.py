"""Fees that another account pays, on the simulated chain."""

from __future__ import annotations

from collections.abc import AsyncIterator

import cosmpy.protos  # noqa: F401 - puts the folder of the cosmos packages on sys.path
import pytest
from cosmos.base.v1beta1.coin_pb2 import Coin as WireCoin
from cosmos.feegrant.v1beta1.feegrant_pb2 import BasicAllowance
from cosmos.feegrant.v1beta1.tx_pb2 import MsgGrantAllowance
from google.protobuf.any_pb2 import Any as Packed

from devnet.chain import SimulatedChain
from provider.chain import messages
from provider.errors import ChainError
from tests.provider.chain.world import ATTRIBUTES, PROVIDER, client, signing_key

GRANTER_INDEX = 9
US, GRANTER = signing_key(PROVIDER).address, signing_key(GRANTER_INDEX).address
CREATE = messages.create_provider(US, host_uri="https://p.example.com:8443", attributes=ATTRIBUTES)


@pytest.fixture
async def node() -> AsyncIterator[SimulatedChain]:
    async with SimulatedChain.start(block_seconds=0.1) as chain:
        yield chain


def grant(limit: int) -> MsgGrantAllowance:
    allowance = BasicAllowance(spend_limit=[WireCoin(denom="uakt", amount=str(limit))])
    packed = Packed(type_url="/cosmos.feegrant.v1beta1.BasicAllowance", value=allowance.SerializeToString())
    return MsgGrantAllowance(granter=GRANTER, grantee=US, allowance=packed)


async def test_a_granter_pays_the_providers_fees(node: SimulatedChain) -> None:
    async with (
        client(node.rpc_address, index=GRANTER_INDEX) as granter,
        client(node.rpc_address, index=PROVIDER, fee_granter=GRANTER) as us,
    ):
        await granter.broadcast([grant(10**6)])
        ours, theirs = await us.balances(US), await us.balances(GRANTER)
        result = await us.broadcast([CREATE])
        assert await us.balances(US) == ours
        assert theirs["uakt"] - (await us.balances(GRANTER))["uakt"] == int(result.fee.removesuffix("uakt"))


@pytest.mark.parametrize("limit", [0, 10])
async def test_the_error_for_a_missing_or_small_grant_has_the_chains_text(node: SimulatedChain, limit: int) -> None:
    async with (
        client(node.rpc_address, index=GRANTER_INDEX) as granter,
        client(node.rpc_address, index=PROVIDER, fee_granter=GRANTER) as us,
    ):
        if limit:
            await granter.broadcast([grant(limit)])
        with pytest.raises(ChainError, match="does not allow to pay fees"):
            await us.broadcast([CREATE])
        assert await us.provider(US) is None
