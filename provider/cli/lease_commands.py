"""Words of `lessor lease` that a running provider obeys. Exit code 1: it does not, or none runs; 2: wrong settings.

What removes something asks first; `--yes` answers.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lease.printable import printable
from provider.errors import ProviderError, SettingsError

if TYPE_CHECKING:
    from lease.ids import LeaseId
    from provider.lifecycle.control import Word

__all__ = ["register_words", "standing"]

_Name = Annotated[str, typer.Argument(help="As `lessor lease list` shows it.", metavar="LEASE")]
_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def register_words(group: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (recreate, retry, close):
        group.command()(command)
    group.command(name="forget", hidden=True)(close)
    group.command(name="release-brake")(release_brake)


def recreate(name: _Name, *, yes: _Yes = False) -> None:
    """Make anew what an older Lessor made: its pods are replaced."""
    _of_a_lease("recreate", name, ask="" if yes else "its pods are replaced")


def retry(name: _Name) -> None:
    """Try again a version that was refused."""
    _of_a_lease("retry", name)


def close(name: _Name, *, yes: _Yes = False) -> None:
    """End a lease that looks closed although the chain does not prove it: everything of it is deleted."""
    _of_a_lease("close", name, ask="" if yes else "everything of it is deleted, its volumes too")


def release_brake(*, yes: _Yes = False) -> None:
    """Let go what the teardown brake holds: these leases are removed."""
    held = standing()["braked"]
    _print([f"held: {each}" for each in held] or ["the brake holds nothing"])
    if held and (yes or _confirm(f"{len(held)} leases are deleted, their volumes too")):
        _obeyed("release-brake")


def standing() -> dict[str, Any]:
    """What waits for an operator's word, as the provider says: `suspects`, `braked`, `unknown_stacks`."""
    return _obeyed("standing")


def _of_a_lease(word: str, name: str, *, ask: str = "") -> None:
    from provider.cli.lease_store import one_lease  # noqa: PLC0415  other commands start without the store

    try:
        lease = asyncio.run(one_lease(name, limit=1)).status.lease
    except ProviderError as error:
        raise _refused(error) from None
    if not ask or _confirm(f"{lease}: {ask}"):
        _obeyed(word, lease)


def _obeyed(word: str, lease: LeaseId | None = None) -> dict[str, Any]:
    from provider.lifecycle.control import Word, control_path, tell  # noqa: PLC0415
    from provider.settings import load_settings  # noqa: PLC0415

    said: Word = Word(word)
    try:
        answer = tell(control_path(load_settings().home), said, lease)
        if not answer.get("ok"):
            raise ProviderError(str(answer.get("text") or json.dumps(answer)))
    except ProviderError as error:
        raise _refused(error) from None
    if answer.get("text"):
        _print([str(answer["text"])])
    return answer


def _confirm(what: str) -> bool:
    return typer.confirm(f"{printable(what)}. Go on?", abort=True)


def _print(lines: list[str]) -> None:
    typer.echo("\n".join(printable(line) for line in lines))


def _refused(error: ProviderError) -> typer.Exit:
    typer.secho(f"lessor: {printable(str(error))}", err=True, fg=typer.colors.RED)
    return typer.Exit(2 if isinstance(error, SettingsError) else 1)
