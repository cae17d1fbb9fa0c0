"""`lessor pulumi`: the stock Pulumi command line on a lease's stack."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from dataclasses import replace
from typing import Annotated

import typer

from lease.ids import namespace_name
from lease.printable import printable
from provider.cli.pulumi_verbs import Effect, Verb, verb_of
from provider.errors import ProviderError, SettingsError, StoreError
from provider.settings import Settings, load_settings
from stacks.engine import EngineConfig, EngineError

__all__ = ["register"]

_REFUSED = 2
_PROGRAM = (
    "a lease has no program on disk: the provider makes its objects from the tenant's manifest. `lessor diff` previews "
    "another manifest; a changed one is applied when its tenant sends it"
)
_HELP = "Its id, dseq, dseq/gseq/oseq or namespace; a unique beginning of id or namespace is enough."


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("pulumi")(pulumi)


def pulumi(
    lease: Annotated[str, typer.Argument(help=_HELP, metavar="LEASE")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="What Pulumi is told, after --.", metavar="-- ARGS")
    ] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; goes on to Pulumi's own question too.")] = False,
) -> None:
    """Run the Pulumi command line on the stack of LEASE, with its state, its secrets and its lock.

    Look, at any time, also while the provider runs:

      lessor pulumi LEASE -- stack

      lessor pulumi LEASE -- stack export

      lessor pulumi LEASE -- refresh --preview-only

    Change, after a question; refused while the provider works on this very stack:

      lessor pulumi LEASE -- refresh

      lessor pulumi LEASE -- state delete URN

      lessor pulumi LEASE -- cancel

    Verbs that need a program (up, preview) are not for leases: the provider applies manifests, `lessor diff` previews
    them. What you change and the manifest does not say is put right by the next update of the provider, and what is
    destroyed here while its lease is open is made again. Each change is in `lessor lease history LEASE`.

    Run it where the provider runs, as its user and with its settings (AP_HOME, KUBECONFIG, …). Exit code: Pulumi's;
    2 when it was not run.
    """
    try:
        raise typer.Exit(_run(lease, verb_of(arguments or [], yes=yes), yes=yes))
    except (ProviderError, EngineError, ValueError) as error:
        typer.secho(f"lessor: {printable(str(error))}", err=True, fg=typer.colors.RED)
        raise typer.Exit(_REFUSED) from None


def _run(lease: str, verb: Verb, *, yes: bool) -> int:
    from provider.cli.lease_store import one_lease  # noqa: PLC0415
    from provider.daemon.backends import engine_config  # noqa: PLC0415  other commands start without the daemon's parts

    if verb.effect is Effect.NEEDS_PROGRAM:
        raise SettingsError(f"pulumi {verb.name}: {_PROGRAM}")
    settings = load_settings()
    stack = namespace_name(asyncio.run(one_lease(lease, limit=1)).status.lease)
    config = engine_config(settings)
    config = config.model_copy(update={"data": config.data.absolute()})
    return _on_stack(config, stack, verb, settings=settings, yes=yes)


def _on_stack(config: EngineConfig, stack: str, verb: Verb, *, settings: Settings, yes: bool) -> int:
    from stacks.stock_cli import exists, run_stock, working_on  # noqa: PLC0415  imports Pulumi's SDK

    if not exists(config, stack):
        raise SettingsError(f"there is no stack {stack} below {config.data}: is AP_HOME the provider's?")
    if verb.effect is Effect.READS:
        return run_stock(config, stack, verb.arguments)
    _ask(stack, verb, yes=yes)
    if busy := working_on(config, stack):
        raise SettingsError(
            f"stack {stack} is being worked on (process {', '.join(map(str, busy))}): wait until it is done, "
            "`lessor lease show` says what runs"
        )
    number = _begun(settings, stack, verb)
    code = None
    try:
        code = run_stock(config, stack, verb.arguments)
    finally:
        _ended(settings, stack, verb, number=number, code=code)
    return code


def _ask(stack: str, verb: Verb, *, yes: bool) -> None:
    if yes:
        return
    command = shlex.join(["pulumi", *verb.arguments])
    if not sys.stdin.isatty():
        raise SettingsError(f"{printable(command)} may change stack {stack}: say --yes before -- if that is meant")
    if not typer.confirm(f"{printable(command)}\nmay change stack {stack}, which a tenant may be using. Run it?"):
        raise SettingsError("not run")


def _begun(settings: Settings, stack: str, verb: Verb) -> tuple[float, int]:
    """When, and the number of the run in the history. Without its history nothing is changed: StoreError."""
    from provider.runs.log import RunReason, StoredRun, begin_run  # noqa: PLC0415
    from provider.store import open_database  # noqa: PLC0415

    at = time.time()

    async def write() -> int:
        database = await open_database(settings.database_url)
        try:
            return await begin_run(database, StoredRun(stack, verb.operation, at, RunReason.OPERATOR))
        finally:
            await database.close()

    return at, asyncio.run(write())


def _ended(settings: Settings, stack: str, verb: Verb, *, number: tuple[float, int], code: int | None) -> None:
    """What Pulumi was told, without values, and how it ended. A store that fails now is told, the exit code stays."""
    from provider.runs.log import RunOutcome, RunReason, StoredRun, end_run  # noqa: PLC0415
    from provider.store import open_database  # noqa: PLC0415
    from provider.store.ring import open_ring  # noqa: PLC0415
    from stacks.common import ResourceChange, StackResult  # noqa: PLC0415

    at, run_id = number
    now, ok = time.time(), code == 0
    error = "" if ok else f"pulumi {verb.name} " + ("was not run" if code is None else f"ended with {code}")
    told = (ResourceChange("run", "pulumi", verb.name),)
    result = StackResult(verb.operation, stack, ok=ok, seconds=round(now - at, 3), changes=told, error=error)
    run = StoredRun(stack, verb.operation, at, RunReason.OPERATOR, ended_at=now, error=error, result=result, id=run_id)
    run = replace(run, outcome=RunOutcome.DONE if ok else RunOutcome.FAILED)

    async def write() -> None:
        database = await open_database(settings.database_url)
        try:
            await end_run(database, await open_ring(database, settings.store_key), run)
        finally:
            await database.close()

    try:
        asyncio.run(write())
    except StoreError as problem:
        typer.secho(f"lessor: the history could not be written: {problem}", err=True, fg=typer.colors.YELLOW)
