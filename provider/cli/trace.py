"""`lessor trace`: everything that the provider's store knows about one lease, in the order in which it happened."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from lease.ids import namespace_name
from provider.cli.home import settings_of_store
from provider.cli.lease_records import LeaseRecords, claim_text, lease_records, manifest_text
from provider.cli.output import LeaseName, Output, OutputOption, failure, print_result, table_lines, utc_time
from provider.errors import SettingsError, StoreError
from provider.lifecycle.state import LeaseStatus
from provider.market.record.decisions import StoredDecision, orders_decided
from provider.runs.log import StoredRun, runs_of
from provider.store import read_database
from provider.store.leases import find_lease
from provider.store.money import LeaseMoney, known_money

__all__ = ["TraceEvent", "trace", "trace_events"]

_MANY = 1_000_000
_NO_RECORDS = LeaseRecords()


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """`at`: Unix seconds. `part`: the part of the provider that did or saw it."""

    at: float
    part: str
    text: str


def trace(name: LeaseName, *, output: OutputOption = Output.TABLE) -> None:
    """Trace one lease: the decisions about its order, its bid, each run of the engine, its state and its earnings.

    Accepted manifests, hostnames, and leased addresses stand among them.
    Times are UTC. What was forgotten is not shown: decisions after LESSOR_DECISIONS_AGE, runs beyond
    LESSOR_HISTORY_RUNS.

    Example: `lessor trace 17452311`
    """
    try:
        status, found = asyncio.run(_read(name))
    except (SettingsError, StoreError) as error:
        raise failure(error) from None
    rows = [(utc_time(event.at), event.part, event.text) for event in found]
    document = {"lease": str(status.lease), "events": [asdict(event) for event in found]}
    print_result(document, [f"lease {status.lease}", *table_lines(rows)], output)


async def _read(name: str) -> tuple[LeaseStatus, list[TraceEvent]]:
    database = await read_database(settings_of_store().database_url)
    try:
        status = await find_lease(database, name)
        decided = await orders_decided(database, status.lease.order)
        runs = await runs_of(database, namespace_name(status.lease), limit=_MANY)
        money = (await known_money(database)).get(status.lease)
        records = await lease_records(database, namespace_name(status.lease), limit=_MANY)
    finally:
        await database.close()
    return status, trace_events(status, decided, runs, money, records)


def trace_events(
    status: LeaseStatus,
    decided: Sequence[StoredDecision],
    runs: Sequence[StoredRun],
    money: LeaseMoney | None,
    records: LeaseRecords = _NO_RECORDS,
) -> list[TraceEvent]:
    """The events, oldest first."""
    events = [*map(_decision, decided), *(event for run in runs for event in _run(run)), *_recorded(records)]
    if not records.states or (records.states[0].phase, records.states[0].reason) != (status.phase, status.reason):
        events.append(_state(status))
    if money is not None:
        final = "finally " if money.ended else ""
        events.append(TraceEvent(money.seen_at, "funds", f"earned {final}{money.earned.normalize():f}{money.denom}"))
    return sorted(events, key=lambda event: event.at)


def _recorded(records: LeaseRecords) -> Iterator[TraceEvent]:
    for manifest in records.manifests:
        yield TraceEvent(manifest.accepted_at, "gateway", f"manifest accepted: {manifest_text(manifest)}")
    for claim in records.claims:
        yield TraceEvent(claim.given_at, "claims", f"{claim_text(claim)}: given")
        if claim.released_at is not None:
            yield TraceEvent(claim.released_at, "claims", f"{claim_text(claim)}: given back")
    for state in records.states:
        yield TraceEvent(state.at, "lease", f"{state.phase}: {state.reason}" if state.reason else state.phase)


def _decision(one: StoredDecision) -> TraceEvent:
    if one.price is not None:
        said = f"bid {one.price.amount.normalize():f}{one.price.denom} a block"
    else:
        said = f"declined: {'; '.join(one.reasons)}"
    return TraceEvent(one.decided_at, "market", f"{said}; {one.outcome}" if one.outcome else said)


def _run(run: StoredRun) -> Iterator[TraceEvent]:
    what = f"{run.operation.value} ({run.reason.value})"
    yield TraceEvent(run.started_at, "engine", f"{what} begins")
    if run.ended_at is None:
        return
    counts = ", ".join(f"{count} {op}" for op, count in sorted((run.summary or {}).items()) if op != "same")
    details = "; ".join(filter(None, (counts, run.error)))
    text = f"{what}: {run.outcome.value} in {run.ended_at - run.started_at:.1f} s"
    yield TraceEvent(run.ended_at, "engine", f"{text}: {details}" if details else text)


def _state(status: LeaseStatus) -> TraceEvent:
    text = f"{status.phase.value}: {status.reason}" if status.reason else status.phase.value
    return TraceEvent(status.since, "lease", text)
