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
from provider.cli.lease_store import one_lease
from provider.cli.output import LeaseName, failure, warn
from provider.cli.pulumi_verbs import Effect, Verb, verb_of
from provider.daemon.backends import engine_config
from provider.errors import ArgumentError, ProviderError, StoreError
from provider.runs.log import RunOutcome, RunReason, StoredRun, begin_run, end_run
from provider.settings import Settings, load_settings
from provider.store import open_database
from provider.store.ring import open_ring
from provider.store.stack_notes import StoredNotes
from stacks.common import ResourceChange, StackResult
from stacks.engine import EngineConfig, EngineError
from stacks.stock_cli import place_stack, run_stock, working_on

__all__ = ["pulumi"]

_PROGRAM = (
    "a lease has no program on disk, since the provider makes its objects from the tenant's manifest. `lessor diff` "
    "previews another manifest; the provider applies a manifest when the tenant sends it"
)


def pulumi(
    lease: LeaseName,
    arguments: Annotated[
        list[str] | None, typer.Argument(help="The arguments of Pulumi, after --.", metavar="-- ARGS")
    ] = None,
    *,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for confirmation, and answer Pulumi's own question.")
    ] = False,
) -> None:
    """Run the Pulumi command line on the stack of a lease.

    Pulumi works on the stack's own state, secrets and lock. Commands that only read work at any time, also while the
    provider runs:

      lessor pulumi LEASE -- stack

      lessor pulumi LEASE -- stack export

      lessor pulumi LEASE -- refresh --preview-only

    Commands that change something ask for confirmation, and are refused while the provider works on this stack:

      lessor pulumi LEASE -- refresh

      lessor pulumi LEASE -- state delete URN

      lessor pulumi LEASE -- cancel

    Commands that need a program (up, preview) do not work on a lease: the provider applies manifests, and `lessor diff`
    previews them. The next update by the provider undoes a change that contradicts the manifest, and makes again what
    was destroyed here while the lease is open. `lessor lease history LEASE` lists each change.

    Run the command where the provider runs, as its user and with its settings (AP_HOME, KUBECONFIG, …). Exit code:
    Pulumi's, or one of those of every command when Pulumi was not run.

    Example: `lessor pulumi 17452311 -- stack export`
    """
    try:
        raise typer.Exit(_run(lease, verb_of(arguments or [], yes=yes), yes=yes))
    except (ProviderError, EngineError, ValueError) as error:
        raise failure(error) from None


def _run(lease: str, verb: Verb, *, yes: bool) -> int:
    if verb.effect is Effect.NEEDS_PROGRAM:
        raise ArgumentError(f"pulumi {verb.name}: {_PROGRAM}")
    settings = load_settings()
    stack = namespace_name(asyncio.run(one_lease(lease, limit=1)).status.lease)
    config = engine_config(settings)
    config = config.model_copy(update={"data": config.data.absolute()})
    return _on_stack(config, stack, verb, settings=settings, yes=yes)


def _on_stack(config: EngineConfig, stack: str, verb: Verb, *, settings: Settings, yes: bool) -> int:
    if not place_stack(config, stack):
        where = "in LESSOR_STACK_BACKEND" if config.backend else f"below {config.data}: is AP_HOME the provider's?"
        raise ProviderError(f"there is no stack {stack} {where}")
    if verb.effect is Effect.READS:
        return run_stock(config, stack, verb.arguments)
    _ask(stack, verb, yes=yes)
    if busy := working_on(config, stack):
        raise ProviderError(
            f"stack {stack} is in use (process {', '.join(map(str, busy))}): wait until the operation has ended, "
            "`lessor lease show` shows what runs"
        )
    number = _begun(settings, stack, verb)
    if config.backend:
        asyncio.run(_doubted(settings, stack))
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
        raise ArgumentError(f"{printable(command)} may change stack {stack}: give --yes before -- to confirm")
    if not typer.confirm(f"{printable(command)}\nmay change stack {stack}, which a tenant may be using. Run it?"):
        raise ProviderError("not run")


def _begun(settings: Settings, stack: str, verb: Verb) -> tuple[float, int]:
    """Record the run in the history; its time and number. Raises `StoreError`: what is not recorded is not run."""
    at = time.time()

    async def write() -> int:
        database = await open_database(settings.database_url)
        try:
            return await begin_run(database, StoredRun(stack, verb.operation, at, RunReason.OPERATOR))
        finally:
            await database.close()

    return at, asyncio.run(write())


async def _doubted(settings: Settings, stack: str) -> None:
    """Have the next operation of any machine read the cluster first. Raises `StoreError` and `EngineError`."""
    database = await open_database(settings.database_url)
    try:
        notes = StoredNotes(database)
        if (note := await notes.read(stack)) is not None:
            await notes.write(stack, replace(note, sound=False))
    finally:
        await database.close()


def _ended(settings: Settings, stack: str, verb: Verb, *, number: tuple[float, int], code: int | None) -> None:
    """Record the run's outcome, and the verb without its values. A failing store is a warning; the exit code stays."""
    at, run_id = number
    now, ok = time.time(), code == 0
    error = "" if ok else f"pulumi {verb.name} " + ("was not run" if code is None else f"ended with {code}")
    changes = (ResourceChange("run", "pulumi", verb.name),)
    result = StackResult(verb.operation, stack, ok=ok, seconds=round(now - at, 3), changes=changes, error=error)
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
        warn(f"lessor: the history could not be written: {problem}")
