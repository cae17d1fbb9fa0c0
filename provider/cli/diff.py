"""`lessor diff`: what another manifest would change for a running lease."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from components.changes import Refusal, compare, refusals
from components.errors import BuildError
from components.lease import lease_objects
from lease.errors import LeaseError, SdlInvalid
from lease.exit_codes import FINDING
from lease.ids import LeaseId
from lease.manifest import Manifest
from lease.printable import printable
from provider.cli.change_table import ShownChange, change_json, compared, from_pulumi, lines
from provider.cli.completion import lease_names
from provider.cli.input_file import read_input
from provider.cli.lease_store import one_lease
from provider.cli.names import lease_name
from provider.cli.next_version import NoDiff, Versions, next_version, parse_lease, read_manifest_text
from provider.cli.output import Output, OutputOption, code_of, failure, print_result, warn
from provider.cli.trial import preview_beside
from provider.daemon.backends import engine_config
from provider.daemon.lease_specs import cluster_facts
from provider.errors import ProviderError
from provider.kube.client import KubeCluster
from provider.lifecycle.spec_maker import spec_maker
from provider.settings import Settings, load_settings
from stacks.engine import EngineError

__all__ = ["diff"]

_LARGEST = 8 * 1024 * 1024
_COLOURS = {
    "create": typer.colors.GREEN,
    "update": typer.colors.YELLOW,
    "replace": typer.colors.MAGENTA,
    "delete": typer.colors.RED,
}


@dataclass(frozen=True, slots=True)
class _Difference:
    """`refused`: the changes that the provider would not apply."""

    changes: Sequence[ShownChange]
    note: str
    refused: Sequence[Refusal]


def diff(
    file: Annotated[str, typer.Argument(help="An SDL, or a manifest as JSON; - reads standard input.", metavar="FILE")],
    *,
    lease: Annotated[
        str,
        typer.Option(
            help="The lease: its whole id, or a name that `lessor lease show` takes, such as its dseq.",
            metavar="LEASE",
            autocompletion=lease_names,
            callback=lease_name,
        ),
    ],
    objects: Annotated[
        bool, typer.Option("--objects", help="Compare only the objects; needs neither Pulumi nor the stack.")
    ] = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 when something would change.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what another manifest would change for a running lease.

    FILE is the manifest that the tenant might send. Pulumi previews it. Run the command where the provider runs, with
    the same settings (AP_HOME, KUBECONFIG, …). It writes nothing and locks nothing, since the preview works on a copy
    of the stack's state. Environment values and credentials are hidden.

    Exit code 1: the provider would refuse the manifest, or, with --exit-code, something would change; 2: trouble.

    Example: `lessor diff new.yaml --lease 17452311`
    """
    try:
        found = asyncio.run(_difference(read_manifest_text(_read(file), file=file), lease, objects))
    except (LeaseError, BuildError) as error:
        raise failure(_one_line(error), code=FINDING) from None
    except (ProviderError, EngineError, TimeoutError) as error:
        raise failure(_one_line(error), code=code_of(error)) from None
    except OSError as error:
        raise failure(f"cannot read {file}: {error.strerror or error}") from None
    if output is Output.TABLE:
        _show(found)
    else:
        print_result(_document(found), (), output)
    if found.refused or (found.changes and exit_code):
        raise typer.Exit(FINDING)


def _read(file: str) -> bytes:
    text = read_input(file, limit=_LARGEST)
    if len(text) > _LARGEST:
        raise NoDiff(f"{file}: more than {_LARGEST} bytes; no manifest is that long")
    return text


def _one_line(problem: Exception) -> str:
    text = _first_of(problem) if isinstance(problem, SdlInvalid) else str(problem)
    return text.strip().replace("\n", "; ") or type(problem).__name__


def _first_of(invalid: SdlInvalid) -> str:
    first, *others = invalid.findings
    return f"{first} (and {len(others)} more: see `lessor sdl check`)" if others else str(first)


async def _difference(manifest: Manifest, name: str, objects_only: bool) -> _Difference:
    lease, settings = await _lease(name), load_settings()
    if settings.provider_address not in ("", lease.provider):
        raise NoDiff(f"the lease is {lease.provider}'s, this provider is {settings.provider_address} (AP_FROM)")
    versions = await _versions(manifest, lease, settings)
    before, after = lease_objects(versions.running), lease_objects(versions.wanted)
    refused = refusals(compare(before, after))
    if objects_only:
        return _Difference(compared(before, after), versions.note, refused)
    return _Difference(await _previewed(versions, settings), versions.note, refused)


async def _lease(name: str) -> LeaseId:
    """A whole id needs no store: the provider may never have run on this machine."""
    return parse_lease(name) if name.count("/") > 2 else (await one_lease(name, limit=1)).status.lease


async def _versions(manifest: Manifest, lease: LeaseId, settings: Settings) -> Versions:
    """Both versions, from the provider's cluster and by its own rules."""
    cluster = KubeCluster(settings.kubeconfig)
    try:
        specs = spec_maker(settings, await cluster_facts(settings, cluster))
        return await next_version(manifest, lease, settings=settings, cluster=cluster, specs=specs)
    finally:
        await cluster.aclose()


async def _previewed(versions: Versions, settings: Settings) -> list[ShownChange]:
    trial = await preview_beside(engine_config(settings), versions.wanted)
    if not trial.result.ok:
        raise NoDiff(f"the preview failed: {trial.result.error}")
    old, new = lease_objects(versions.running), lease_objects(versions.wanted)
    return from_pulumi(trial.result.changes, state=trial.state, old=old, new=new)


def _show(found: _Difference) -> None:
    for op, line in lines(found.changes):
        typer.secho(line, fg=_COLOURS.get(op))
    typer.echo(_summary(found.changes))
    if found.note:
        warn(f"note: {found.note}")
    for refusal in found.refused:
        typer.secho(f"refused: {printable(str(refusal))}", err=True, fg=typer.colors.RED)


def _document(found: _Difference) -> dict[str, object]:
    return {
        "changes": [change_json(each) for each in found.changes],
        "note": found.note,
        "refused": [str(each) for each in found.refused],
    }


def _summary(changes: Sequence[ShownChange]) -> str:
    return ", ".join(_counted(changes)) or "no change"


def _counted(changes: Sequence[ShownChange]) -> Iterator[str]:
    for op in _COLOURS:
        if number := sum(change.op == op for change in changes):
            yield f"{number} to {op}"
