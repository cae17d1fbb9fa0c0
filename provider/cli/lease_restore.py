"""`lessor lease volumes` and `lessor lease restore`: data that outlived its lease. Both ask the running provider.

Exit code 1: it does not do it, or none runs; 2: wrong settings.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lease.printable import printable
from provider.errors import ProviderError, SettingsError

if TYPE_CHECKING:
    from lease.ids import LeaseId

__all__ = ["register_restore"]

_COLUMNS = ("LEASE", "CLAIM", "VOLUME", "CLASS", "SIZE", "STATE")
_Name = Annotated[
    str, typer.Argument(help="The lease that has ended, as `lessor lease list` shows it.", metavar="LEASE")
]
_Into = Annotated[
    str, typer.Option("--into", help="The lease that gets them; else the tenant's only one.", metavar="LEASE")
]
_Only = Annotated[
    list[str] | None, typer.Option("--only", help="Only this claim or volume; may be given again.", metavar="NAME")
]
_Owner = Annotated[bool, typer.Option("--force-owner", help="Give the data to another tenant.")]
_Swap = Annotated[
    bool, typer.Option("--swap", help="A volume that the claim has by now goes into quarantine; the service restarts.")
]
_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]


def register_restore(group: typer.Typer) -> None:
    """Add the commands of this module."""
    group.command()(volumes)
    group.command()(restore)


def volumes(*, as_json: _Json = False) -> None:
    """Volumes that are kept after their lease has ended, and until when."""
    found: list[dict[str, Any]] = _told("volumes")["volumes"]
    lines = [json.dumps(found, indent=2)] if as_json else _table(found)
    typer.echo("\n".join(lines if as_json else map(printable, lines)))


def restore(
    name: _Name,
    *,
    into: _Into = "",
    only: _Only = None,
    force_owner: _Owner = False,
    swap: _Swap = False,
    yes: _Yes = False,
) -> None:
    """Give the volumes of a lease that has ended to another lease: before its manifest is sent, or with --swap."""
    lease, target = _leases(name, into)
    asks = "its data goes to another tenant" if force_owner else "services restart" if swap else ""
    if asks and not yes:
        typer.confirm(f"{printable(str(target or lease))}: {asks}. Go on?", abort=True)
    more: dict[str, object] = {"force_owner": force_owner, "swap": swap, "only": only or []}
    answer = _told("restore", lease, **more, **({"into": str(target)} if target else {}))
    typer.echo(printable(str(answer["text"])))


def _leases(name: str, into: str) -> tuple[LeaseId, LeaseId | None]:
    from provider.cli.lease_store import one_lease  # noqa: PLC0415  other commands start without the store

    async def both() -> tuple[LeaseId, LeaseId | None]:
        lease = (await one_lease(name, limit=1)).status.lease
        return lease, (await one_lease(into, limit=1)).status.lease if into else None

    try:
        return asyncio.run(both())
    except ProviderError as error:
        raise _refused(error) from None


def _told(word: str, lease: LeaseId | None = None, **more: object) -> dict[str, Any]:
    from provider.lifecycle.control import Word, control_path, tell  # noqa: PLC0415
    from provider.settings import load_settings  # noqa: PLC0415

    try:
        answer = tell(control_path(load_settings().home), Word(word), lease, **more)
        if not answer.get("ok"):
            raise ProviderError(str(answer.get("text") or json.dumps(answer)))
    except ProviderError as error:
        raise _refused(error) from None
    return answer


def _table(found: Sequence[dict[str, Any]]) -> list[str]:
    if not found:
        return ["no volume is in quarantine"]
    rows = [_COLUMNS, *(_row(each) for each in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS) - 1)]
    return [
        "  ".join((*(f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)), row[-1])) for row in rows
    ]


def _row(volume: dict[str, Any]) -> tuple[str, ...]:
    size = f"{volume['size_bytes'] / 2**30:.4g} GiB"
    return (volume["lease"], volume["claim"], volume["volume"], volume["storage_class"] or "-", size, volume["state"])


def _refused(error: ProviderError) -> typer.Exit:
    typer.secho(f"lessor: {printable(str(error))}", err=True, fg=typer.colors.RED)
    return typer.Exit(2 if isinstance(error, SettingsError) else 1)
