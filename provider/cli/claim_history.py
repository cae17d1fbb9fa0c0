"""`lessor address history` and `lessor hostname history`: who had an address or a hostname, and when."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from lease.ids import namespace_name
from provider.cli.home import settings_of_store
from provider.cli.output import Output, OutputOption, failure, print_result, table_lines, utc_time
from provider.errors import SettingsError, StoreError
from provider.store import read_database
from provider.store.claims import StoredClaim, claims_on

__all__ = ["address_history", "hostname_history"]

_COLUMNS = ("SINCE", "UNTIL", "LEASE", "OWNER", "SERVICE", "PORT")


def _address(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise typer.BadParameter(f"{value[:200]!r} is no IP address, such as 203.0.113.7") from None


_Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000_000, help="The number of holders to list.")]
_Address = Annotated[
    str, typer.Argument(help="An address that is or was leased.", metavar="ADDRESS", callback=_address)
]
_Hostname = Annotated[str, typer.Argument(help="A hostname that a lease has or had.", metavar="HOSTNAME")]


def address_history(address: _Address, *, limit: _Limit = 20, output: OutputOption = Output.TABLE) -> None:
    """List which leases had an address, the newest first.

    What was given back is kept for LESSOR_CLAIMS_AGE. The command works beside a running provider and without one.

    Example: `lessor address history 203.0.113.7`
    """
    _show(address, limit, output)


def hostname_history(hostname: _Hostname, *, limit: _Limit = 20, output: OutputOption = Output.TABLE) -> None:
    """List which leases had a hostname, the newest first.

    What was given back is kept for LESSOR_CLAIMS_AGE. The command works beside a running provider and without one.

    Example: `lessor hostname history app.example.com`
    """
    _show(hostname, limit, output)


def _show(name: str, limit: int, output: Output) -> None:
    try:
        found = asyncio.run(_read(name, limit))
    except (SettingsError, StoreError) as error:
        raise failure(error) from None
    lines = table_lines(map(_row, found), header=_COLUMNS) or [f"no lease is known to have had {name}"]
    print_result([_document(one) for one in found], lines, output)


async def _read(name: str, limit: int) -> Sequence[StoredClaim]:
    database = await read_database(settings_of_store().database_url)
    try:
        return await claims_on(database, name, limit=limit)
    finally:
        await database.close()


def _row(one: StoredClaim) -> tuple[str, ...]:
    lease = one.claim.lease
    until = "now" if one.released_at is None else utc_time(one.released_at)
    short = f"{lease.dseq}/{lease.gseq}/{lease.oseq}"
    return (utc_time(one.given_at), until, short, lease.owner, one.claim.service, one.claim.port)


def _document(one: StoredClaim) -> dict[str, Any]:
    claim = one.claim
    return {
        "kind": claim.kind.value,
        "name": claim.name,
        "port": claim.port,
        "service": claim.service,
        "lease": str(claim.lease),
        "namespace": namespace_name(claim.lease),
        "since": utc_time(one.given_at),
        "until": None if one.released_at is None else utc_time(one.released_at),
    }
