"""`lessor lease volumes` and `lessor lease restore`: data that outlives its lease. The running provider answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from lease.ids import LeaseId
from provider.cli.completion import lease_names
from provider.cli.lease_directives import confirm, request
from provider.cli.lease_store import one_lease
from provider.cli.names import lease_name
from provider.cli.output import Output, OutputOption, failure, print_result, table_lines
from provider.errors import ProviderError
from provider.lifecycle.control import OperatorRequest

__all__ = ["restore", "volumes"]

_COLUMNS = ("LEASE", "CLAIM", "VOLUME", "CLASS", "SIZE", "STATE")
_Name = Annotated[
    str,
    typer.Argument(
        help="The lease that has ended: a name that `lessor lease show` takes.", metavar="LEASE", callback=lease_name
    ),
]
_Into = Annotated[
    str,
    typer.Option(
        "--into",
        help="The lease that gets the volumes; default: the tenant's only lease.",
        metavar="LEASE",
        autocompletion=lease_names,
        callback=lease_name,
    ),
]
_Only = Annotated[
    list[str] | None,
    typer.Option("--only", help="Restore only this claim or volume. May be repeated.", metavar="NAME"),
]
_Owner = Annotated[bool, typer.Option("--force-owner", help="Allow that the lease belongs to another tenant.")]
_Swap = Annotated[
    bool,
    typer.Option("--swap", help="Replace a volume that the claim has by now: it is quarantined, the service restarts."),
]
_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def volumes(*, output: OutputOption = Output.TABLE) -> None:
    """List the volumes that are kept although their lease has ended.

    The last column says until when a volume is kept.

    Example: `lessor lease volumes`
    """
    found: list[dict[str, Any]] = request(OperatorRequest.VOLUMES)["volumes"]
    print_result(found, _table(found), output)


def restore(
    name: _Name,
    *,
    into: _Into = "",
    only: _Only = None,
    force_owner: _Owner = False,
    swap: _Swap = False,
    yes: _Yes = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Give the volumes of a lease that has ended to another lease.

    The other lease gets them before its tenant sends the manifest, or later with --swap.

    Example: `lessor lease restore 17452311 --into 17460007`
    """
    lease, target = _leases(name, into)
    question = "its data goes to another tenant" if force_owner else "services restart" if swap else ""
    if question and not yes:
        confirm(f"{target or lease}: {question}")
    fields: dict[str, object] = {"force_owner": force_owner, "swap": swap, "only": only or []}
    answer = request(OperatorRequest.RESTORE, lease, **fields, **({"into": str(target)} if target else {}))
    print_result({"lease": str(lease), "text": str(answer["text"])}, [str(answer["text"])], output)


def _leases(name: str, into: str) -> tuple[LeaseId, LeaseId | None]:
    async def both() -> tuple[LeaseId, LeaseId | None]:
        lease = (await one_lease(name, limit=1)).status.lease
        return lease, (await one_lease(into, limit=1)).status.lease if into else None

    try:
        return asyncio.run(both())
    except ProviderError as error:
        raise failure(error) from None


def _table(found: Sequence[dict[str, Any]]) -> list[str]:
    return table_lines(map(_row, found), header=_COLUMNS) or ["no volume is in quarantine"]


def _row(volume: dict[str, Any]) -> tuple[str, ...]:
    size = f"{volume['size_bytes'] / 2**30:.4g} GiB"
    return (volume["lease"], volume["claim"], volume["volume"], volume["storage_class"] or "-", size, volume["state"])
