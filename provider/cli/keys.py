"""`lessor keys`: the provider's address and balance. The key itself is never shown.

When no node answers, only the balance is missing.
"""

from __future__ import annotations

import asyncio
from typing import Any

from provider.chain.comet import CometChain
from provider.chain.keys import key_source, load_key
from provider.cli.output import Output, OutputOption, failure, print_result, table_lines
from provider.errors import ChainError, SettingsError
from provider.protocols.clock import SystemClock
from provider.settings import Settings, load_settings

__all__ = ["key_facts", "keys"]

_PATH = "m/44'/118'/0'/0/"


def keys(*, output: OutputOption = Output.TABLE) -> None:
    """Show the provider's address, where its key comes from, and its balance.

    The balance needs a node of the chain (AP_NODE). The key itself is never shown.

    Example: `lessor keys --output json`
    """
    try:
        document = asyncio.run(key_facts(load_settings()))
    except SettingsError as error:
        raise failure(error) from None
    lines = table_lines((name, _text(value)) for name, value in document.items())
    print_result(document, lines, output)


async def key_facts(settings: Settings) -> dict[str, Any]:
    """The JSON document of the command: address, source of the key, balance by denom or why it is not known."""
    key, source = load_key(settings), key_source(settings)
    document: dict[str, Any] = {"address": key.address, "key": source}
    if "MNEMONIC" in source:
        document["path"] = f"{_PATH}{settings.key_index}"
    if settings.fee_granter:
        document["fees paid by"] = settings.fee_granter
    return document | await _held(settings, key.address)


async def _held(settings: Settings, address: str) -> dict[str, Any]:
    async with CometChain(settings, clock=SystemClock()) as chain:
        try:
            head = await chain.head()
            held = await chain.balances(address)
            return {"chain": head.chain_id, "balance": {denom: str(amount) for denom, amount in sorted(held.items())}}
        except ChainError as error:
            return {"balance": f"not known: {error}"}


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{amount}{denom}" for denom, amount in value.items()) or "nothing: send it some uakt for fees"
    return str(value)
