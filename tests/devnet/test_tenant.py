"""The devnet's tenant: a refusal of the chain raises an error with the chain's message."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from devnet.chain import TEST_MNEMONIC, SimulatedChain
from devnet.chain.keys import ROLES
from devnet.tenant import Account, ChainRefused, Tenant
from lease.sdl import Sdl, read_sdl

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "web.yaml"


def with_price(sdl: Sdl, denom: str, *, every: bool) -> Sdl:
    (group,) = sdl.groups
    changed = [replace(unit, price=replace(unit.price, denom=denom)) for unit in group.units]
    units = tuple(
        changed if every else [*group.units, replace(changed[0], resources=replace(changed[0].resources, id=9))]
    )
    return replace(sdl, groups=(replace(group, units=units),))


@pytest.mark.parametrize(("every", "word"), [(True, "Mismatched denominations"), (False, "multi-deno")])
async def test_a_refusal_in_simulation_raises_the_message_of_the_chain_with_a_remedy(every: bool, word: str) -> None:
    async with SimulatedChain.start(block_seconds=0.2) as chain:
        account = Account.from_mnemonic(
            TEST_MNEMONIC, index=ROLES.index("tenant"), grpc=chain.grpc_address, chain_id=chain.chain_id
        )
        tenant = Tenant(account)
        with pytest.raises(ChainRefused, match=word) as refused:
            await tenant.publish(with_price(read_sdl(EXAMPLE.read_bytes()), "uakt", every=every))
        await tenant.close()
    assert "DENOM=uact" in str(refused.value)
