"""`lessor keys`: whose provider this is. Addresses and balances only; what signs is never shown.

Exit code 2: wrong settings. A node that does not answer costs the balance, not the answer.
"""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import typer

from lease.printable import printable
from provider.errors import ChainError, SettingsError
from provider.settings import Settings, load_settings

__all__ = ["register"]

_WRONG_SETTINGS = 2
_PATH = "m/44'/118'/0'/0/"


def register(app: typer.Typer) -> None:
    """Add `keys`."""
    app.command()(keys)


def keys(*, as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False) -> None:
    """The provider's address, where its key comes from, and what the account holds, if a node answers (AP_NODE)."""
    try:
        document = asyncio.run(_told(load_settings()))
    except SettingsError as error:
        typer.secho(f"lessor: {printable(str(error))}", err=True, fg=typer.colors.RED)
        raise typer.Exit(_WRONG_SETTINGS) from None
    if as_json:
        typer.echo(json.dumps(document, indent=2))
        return
    for name, value in document.items():
        typer.echo(f"{name:<12} {_text(value)}")


async def _told(settings: Settings) -> dict[str, Any]:
    from provider.chain.keys import key_source, load_key  # noqa: PLC0415  other commands start without cosmpy

    key, source = load_key(settings), key_source(settings)
    document: dict[str, Any] = {"address": key.address, "key": source}
    if "MNEMONIC" in source:
        document["path"] = f"{_PATH}{settings.key_index}"
    if settings.fee_granter:
        document["fees paid by"] = settings.fee_granter
    return document | await _held(settings, key.address)


async def _held(settings: Settings, address: str) -> dict[str, Any]:
    from provider.chain.comet import CometChain  # noqa: PLC0415
    from provider.protocols.clock import SystemClock  # noqa: PLC0415

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
    return printable(str(value))
