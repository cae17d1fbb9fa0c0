"""`lessor keys`: addresses and balances, never what signs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from devnet.chain import TEST_MNEMONIC, SimulatedChain
from lease.exit_codes import SETTINGS
from provider.cli import build_app
from provider.cli.keys import key_facts
from provider.settings import Settings
from tests.provider.chain.world import PROVIDER, signing_key

US = signing_key(PROVIDER)


def invoke(*arguments: str, **environment: str) -> tuple[int, str]:
    found = CliRunner().invoke(build_app(), ["keys", *arguments], env=environment)
    return found.exit_code, found.output


@pytest.fixture
async def node() -> AsyncIterator[SimulatedChain]:
    async with SimulatedChain.start(block_seconds=None) as chain:
        yield chain


async def test_the_address_its_source_and_what_it_holds_are_shown(node: SimulatedChain) -> None:
    settings = Settings(mnemonic=TEST_MNEMONIC, key_index=PROVIDER, node=node.rpc_address, chain_id="")
    told = await key_facts(settings)
    assert told["address"] == US.address
    assert (told["key"], told["path"]) == ("LESSOR_MNEMONIC", f"m/44'/118'/0'/0/{PROVIDER}")
    assert told["chain"] == node.chain_id
    assert int(told["balance"]["uakt"]) > 0
    assert not any(word in json.dumps(told) for word in ("abandon", US.private_bytes.hex()))


def test_without_a_node_the_address_is_still_told_and_no_secret_is(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(US.private_bytes.hex())
    key.chmod(0o600)
    granter = signing_key(0).address
    code, output = invoke(
        LESSOR_PRIVATE_KEY_FILE=str(key),
        AP_NODE="http://127.0.0.1:1",
        AP_FEE_GRANTER=granter,
        AP_RPC_QUERY_TIMEOUT="1s",
    )
    assert code == 0
    assert US.address in output
    assert granter in output
    assert "not known: chain node http://127.0.0.1:1" in output
    assert US.private_bytes.hex() not in output


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({}, "exactly one of"),
        ({"LESSOR_MNEMONIC": "abandon " * 12}, "BIP-39"),
        ({"LESSOR_MNEMONIC": TEST_MNEMONIC, "AP_FROM": "akash1" + "q" * 38}, "AP_FROM"),
        ({"LESSOR_MNEMONIC": TEST_MNEMONIC, "AP_FEE_GRANTER": "cosmos1x"}, "AP_FEE_GRANTER"),
    ],
)
def test_wrong_settings_are_one_line_without_a_secret(environment: dict[str, str], why: str) -> None:
    code, output = invoke(**environment)
    assert code == SETTINGS
    assert why in output
    assert "abandon" not in output
