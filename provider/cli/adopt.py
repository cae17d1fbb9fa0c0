"""`lessor adopt`: take over the leases of a cluster that a Go provider has run until now."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from lease.exit_codes import FINDING, TROUBLE
from lease.spec import LeaseSpec
from provider.adoption.plan import LeasePlan, State
from provider.adoption.steps import AdoptionPlan, adopt_lease, plan_adoption
from provider.chain.comet import CometChain
from provider.chain.keys import load_key
from provider.cli.output import Output, OutputOption, failure, print_lines, print_result, table_lines, warn
from provider.daemon.backends import engine_config
from provider.daemon.lease_specs import cluster_facts
from provider.daemon.private_home import prepare_home
from provider.errors import ProviderError
from provider.kube.client import KubeCluster
from provider.lifecycle.spec_maker import spec_maker
from provider.protocols import Cluster
from provider.protocols.clock import SystemClock
from provider.settings import Settings, load_settings
from stacks.engine import EngineError, importing

__all__ = [
    "Adopted",
    "adopt",
    "adopt_all",
    "chosen_leases",
    "code_for",
    "plan_document",
    "plan_lines",
    "refusal",
]

_COLUMNS = ("STATE", "LEASE", "OBJECTS", "WHAT")
_FINE = (State.READY, State.ADOPTED, State.MANAGED, State.ENDED)


@dataclass(frozen=True, slots=True)
class Adopted:
    """`done` and `failed`: names of leases, and for a failed one why."""

    done: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()


def adopt(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and change nothing.")] = False,
    changes: Annotated[
        bool,
        typer.Option("--changes", help="Also adopt leases in state `changes`: Lessor changes them when it starts."),
    ] = False,
    while_running: Annotated[
        bool, typer.Option("--while-running", help="Adopt although pods of another provider run in the cluster.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Take over the leases of a cluster that a Go provider has run until now.

    Stop the Go provider and its operators first, and run the command where Lessor will run, with the same settings. The
    plan is printed, then the command asks. Each lease becomes a stack; its objects stay as they are until its tenant
    sends a manifest, so that the Go provider can be started again until then. Repeating the command continues after a
    crash.

    Exit code 0: every lease is adopted, or with --dry-run can be; 1: a lease needs attention; 2: trouble.

    Example: `lessor adopt --dry-run`
    """
    try:
        settings = load_settings()
        plan = asyncio.run(_planned(settings))
        _print_plan(plan, output)
        if not dry_run and (problem := refusal(plan, while_running=while_running)):
            raise failure(problem)
        chosen = chosen_leases(plan, changes=changes)
        if dry_run or not chosen:
            raise typer.Exit(code_for(plan, Adopted(), chosen=()))
        if not yes:
            typer.confirm(f"Adopt {len(chosen)} leases?", abort=True, err=True)
        adopted = asyncio.run(_adopted(settings, chosen))
    except (ProviderError, EngineError) as error:
        raise failure(error) from None
    print_lines(_result_lines(adopted, quiet=output is not Output.TABLE))
    for name, problem in adopted.failed:
        warn(f"{name}: {problem}")
    raise typer.Exit(code_for(plan, adopted, chosen=chosen))


async def adopt_all(
    chosen: Sequence[LeasePlan], cluster: Cluster, *, records: str, import_stack: Callable[[LeaseSpec], bool]
) -> Adopted:
    """Adopt these leases, one after the other; the failure of one does not stop the others."""
    done, failed = [], []
    for plan in chosen:
        try:
            await adopt_lease(plan, cluster, records=records, import_stack=import_stack)
            done.append(plan.name)
        except (ProviderError, EngineError, OSError) as error:
            failed.append((plan.name, str(error)))
    return Adopted(tuple(done), tuple(failed))


def refusal(plan: AdoptionPlan, *, while_running: bool) -> str:
    """Why nothing may be adopted now; empty when it may."""
    if not plan.running or while_running:
        return ""
    return f"{', '.join(plan.running)} run: stop the other provider and its operators first, or give --while-running"


def chosen_leases(plan: AdoptionPlan, *, changes: bool) -> tuple[LeasePlan, ...]:
    """The leases to adopt: with `changes` those too that Lessor changes when it starts."""
    wanted = (State.READY, State.CHANGES) if changes else (State.READY,)
    return tuple(each for each in plan.leases if each.state in wanted)


def code_for(plan: AdoptionPlan, adopted: Adopted, *, chosen: Sequence[LeasePlan]) -> int:
    """The exit code: 0 fine, 1 when a lease needs attention, 2 when one could not be adopted."""
    if adopted.failed:
        return TROUBLE
    taken = {each.name for each in chosen}
    return FINDING if any(each.state not in _FINE and each.name not in taken for each in plan.leases) else 0


def plan_lines(plan: AdoptionPlan) -> Iterator[str]:
    """The plan as text: a table of leases, the differences and notes of each, and what is added."""
    rows = [(each.state, str(each.lease or each.name), str(each.objects or "-"), _what(each)) for each in plan.leases]
    yield from table_lines(rows, header=_COLUMNS, right=(2,)) or ["the cluster holds no lease"]
    for each in plan.leases:
        if each.differences or each.notes:
            yield ""
            yield f"{each.lease or each.name}:"
            yield from (f"  change: {text}" for text in each.differences)
            yield from (f"  note: {text}" for text in each.notes)
    yield ""
    yield from _summary(plan)


def plan_document(plan: AdoptionPlan) -> dict[str, Any]:
    """The plan as a JSON document."""
    return {
        "leases": [
            {
                "namespace": each.name,
                "lease": str(each.lease) if each.lease else None,
                "state": each.state,
                "reason": each.reason,
                "objects": each.objects,
                "changes": list(each.differences),
                "notes": list(each.notes),
            }
            for each in plan.leases
        ],
        "running": list(plan.running),
        "unreadable": list(plan.unreadable),
    }


async def _planned(settings: Settings) -> AdoptionPlan:
    async with _clients(settings) as (cluster, chain):
        return await plan_adoption(
            cluster,
            chain,
            spec_maker(settings, await cluster_facts(settings, cluster)),
            provider=settings.provider_address or load_key(settings).address,
            records=settings.manifest_namespace,
            metallb=settings.metallb_namespace,
        )


@asynccontextmanager
async def _clients(settings: Settings) -> AsyncIterator[tuple[KubeCluster, CometChain]]:
    cluster = KubeCluster(settings.kubeconfig)
    try:
        async with CometChain(settings, clock=SystemClock()) as chain:
            yield cluster, chain
    finally:
        await cluster.aclose()


async def _adopted(settings: Settings, chosen: Sequence[LeasePlan]) -> Adopted:
    prepare_home(settings)
    cluster = KubeCluster(settings.kubeconfig)
    try:
        with importing(engine_config(settings)) as import_stack:
            return await adopt_all(chosen, cluster, records=settings.manifest_namespace, import_stack=import_stack)
    finally:
        await cluster.aclose()


def _print_plan(plan: AdoptionPlan, output: Output) -> None:
    print_result(plan_document(plan), plan_lines(plan), output)


def _what(each: LeasePlan) -> str:
    if each.reason:
        return each.reason
    count = len(each.differences)
    return f"{count} differences" if count > 1 else f"{count} difference" if count else "nothing changes"


def _summary(plan: AdoptionPlan) -> Iterator[str]:
    counts = Counter(each.state for each in plan.leases)
    yield ", ".join(f"{counts[state]} {state}" for state in State if counts[state]) or "no leases"
    ready = [each for each in plan.leases if each.state in (State.READY, State.CHANGES)]
    noted = sum(len(each.addresses) for each in ready)
    if ready:
        statuses = f" and the status of {noted} ProviderLeasedIPs" if noted else ""
        yield f"added to the cluster: {len(ready)} Secrets `applied-…`{statuses}; nothing else is changed or removed"
    yield from (f"{name} names no lease and is left alone" for name in plan.unreadable)
    yield from (f"runs in this cluster: pod {name} of another provider" for name in plan.running)
    if not plan.running:
        yield "no pod of another provider runs in this cluster; a provider outside of it is not seen"


def _result_lines(adopted: Adopted, *, quiet: bool) -> Iterable[str]:
    return [] if quiet else [f"adopted: {len(adopted.done)} leases"]
