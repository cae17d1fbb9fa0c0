"""Vesting and module accounts: what any account can do on the chain, it can do here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from cosmos.auth.v1beta1.auth_pb2 import BaseAccount
from google.protobuf.any_pb2 import Any as Packed

from devnet.chain import SimulatedChain
from devnet.chain.genesis import Genesis, devnet_genesis
from provider.chain import messages
from provider.chain.accounts import base_account
from tests.provider.chain.world import ATTRIBUTES, PROVIDER, client, signing_key

KINDS = ["", "continuous", "delayed", "periodic", "locked", "module"]
US = signing_key(PROVIDER)


def _genesis(kind: str) -> Genesis:
    made = devnet_genesis()
    return replace(
        made, accounts=tuple(replace(row, kind=kind) if row.address == US.address else row for row in made.accounts)
    )


@pytest.fixture(params=KINDS)
async def node(request: pytest.FixtureRequest) -> AsyncIterator[SimulatedChain]:
    async with SimulatedChain.start(_genesis(request.param), block_seconds=0.05) as chain:
        yield chain


async def test_an_account_of_every_kind_sends_and_shows_its_key(node: SimulatedChain) -> None:
    async with client(node.rpc_address, index=PROVIDER) as chain:
        assert await chain.account_public_key(US.address) is None
        made = messages.create_provider(US.address, host_uri="https://p.example.com:8443", attributes=ATTRIBUTES)
        await chain.broadcast([made])
        assert await chain.account_public_key(US.address) == US.public_bytes


def test_what_holds_no_base_account_or_cannot_be_read_is_none() -> None:
    other = Packed()
    other.Pack(Packed(type_url="x"))
    assert base_account(other) is None
    broken = Packed()
    broken.Pack(BaseAccount(account_number=7))
    broken.value = b"\xff"
    assert base_account(broken) is None
