"""Leases and runs as text for operators and as JSON for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lease.ids import LeaseId, namespace_name
from provider.cli.output import table_lines, utc_time
from provider.lifecycle.state import LeaseStatus
from provider.runs.log import RunOutcome, StoredRun
from stacks.common import Operation, StackResult

__all__ = [
    "attention_lines",
    "brake_lines",
    "history_lines",
    "lease_json",
    "list_lines",
    "run_json",
    "show_json",
    "show_lines",
]

_HASH = 12
_LONGEST_VALUE = 200
"""The most characters of a value; the JSON has the whole value."""
_COLUMNS = ("LEASE", "OWNER", "NAMESPACE", "SINCE", "STATE")


def list_lines(statuses: Sequence[LeaseStatus]) -> list[str]:
    """A table with a row for each lease; the last column holds the state and the whole reason for it."""
    return table_lines(map(_row, statuses), header=_COLUMNS) or ["no lease is known"]


def brake_lines(held: Collection[LeaseId]) -> list[str]:
    """The leases that the teardown brake holds and the command that releases them; empty when it holds none."""
    if not held:
        return []
    names = ", ".join(_short(lease) for lease in sorted(held))
    return [f"teardown brake: {len(held)} closed leases wait for `lessor lease release-brake` ({names})"]


def attention_lines(found: Mapping[str, Any]) -> list[str]:
    """What needs an operator's decision: leases that look closed, leases that the brake holds, unknown stacks."""
    suspects = [("looks closed", f"{lease}: {reason}") for lease, reason in found["suspects"].items()]
    braked = [("brake", f"{lease}: `lessor lease release-brake` deletes it") for lease in found["braked"]]
    stacks = [("stack", f"{stack}: no lease is known for it") for stack in found["unknown_stacks"]]
    return table_lines([*suspects, *braked, *stacks]) or ["nothing needs a decision"]


def show_lines(status: LeaseStatus, runs: Sequence[StoredRun]) -> list[str]:
    """The state, the hashes of what runs, and the number of kept runs by outcome."""
    running = _running(runs)
    outcomes = Counter(run.outcome.value for run in runs)
    facts = {
        "lease": str(status.lease),
        "namespace": namespace_name(status.lease),
        "state": f"{status.phase.value}, since {utc_time(status.since)}",
        "reason": status.reason,
        "tries": f"{status.attempts} in a row failed for reasons of the provider's own" if status.attempts else "",
        "running": f"spec {running.spec_hash[:_HASH]}, manifest {running.manifest_hash[:_HASH] or '?'}"
        if running
        else "",
        "last run": _headline(runs[0]) if runs else "none is kept",
        "error": runs[0].error if runs else "",
        "runs": ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())),
    }
    return table_lines((name, value) for name, value in facts.items() if value)


def history_lines(runs: Sequence[StoredRun]) -> list[str]:
    return [line for run in runs for line in _run_lines(run)] or ["no run is kept"]


def lease_json(status: LeaseStatus) -> dict[str, Any]:
    return {
        "lease": str(status.lease),
        "namespace": namespace_name(status.lease),
        "state": status.phase.value,
        "reason": status.reason,
        "since": utc_time(status.since),
        "attempts": status.attempts,
    }


def show_json(status: LeaseStatus, runs: Sequence[StoredRun]) -> dict[str, Any]:
    running = _running(runs)
    return {
        **lease_json(status),
        "spec_hash": running.spec_hash if running else None,
        "manifest_hash": running.manifest_hash if running else None,
        "runs": dict(Counter(run.outcome.value for run in runs)),
        "last_run": run_json(runs[0]) if runs else None,
    }


def run_json(run: StoredRun) -> dict[str, Any]:
    """`result` is the engine's result, masked; null while the run goes on, or when the store's key is missing."""
    return {
        "id": run.id,
        "operation": run.operation.value,
        "asked_by": run.reason.value,
        "spec_hash": run.spec_hash,
        "manifest_hash": run.manifest_hash,
        "started_at": utc_time(run.started_at),
        "ended_at": None if run.ended_at is None else utc_time(run.ended_at),
        "outcome": run.outcome.value,
        "summary": dict(run.summary or {}),
        "cause": run.cause,
        "error": run.error,
        "result": None if run.result is None else asdict(run.result),
    }


def _row(status: LeaseStatus) -> tuple[str, ...]:
    state = f"{status.phase.value}: {status.reason}" if status.reason else status.phase.value
    short = namespace_name(status.lease)[:8]
    return (_short(status.lease), status.lease.owner, short, utc_time(status.since), " ".join(state.split()))


def _short(lease: LeaseId) -> str:
    return f"{lease.dseq}/{lease.gseq}/{lease.oseq}"


def _running(runs: Sequence[StoredRun]) -> StoredRun | None:
    """The newest run that applied in full, unless the stack was destroyed since."""
    for run in runs:
        if run.outcome is RunOutcome.DONE and run.operation is Operation.DESTROY:
            return None
        if run.outcome is RunOutcome.DONE and run.operation is Operation.UP:
            return run
    return None


def _run_lines(run: StoredRun) -> Iterator[str]:
    yield f"#{run.id} {_headline(run)}"
    if run.spec_hash:
        yield f"    spec {run.spec_hash[:_HASH]}, manifest {run.manifest_hash[:_HASH] or '?'}"
    if run.result is not None:
        yield from (f"    {line}" for line in _result_lines(run.result))
    if run.error:
        yield from (f"    error: {line}" for line in run.error.splitlines())


def _headline(run: StoredRun) -> str:
    ran = run.ended_at is not None and run.outcome is not RunOutcome.REFUSED
    took = f" in {(run.ended_at or 0.0) - run.started_at:.2f} s" if ran else ""
    sums = ", ".join(f"{count} {op}" for op, count in (run.summary or {}).items() if op != "same")
    how = f"{run.outcome.value}{f' ({run.cause})' if run.cause else ''}{took}"
    return "; ".join(
        filter(None, (f"{utc_time(run.started_at)} {run.operation.value} ({run.reason.value}): {how}", sums))
    )


def _result_lines(result: StackResult) -> Iterator[str]:
    parts = {name.removesuffix("_s").replace("_", " "): value for name, value in asdict(result.durations).items()}
    if any(parts.values()):
        yield ", ".join(f"{name} {value:.2f} s" for name, value in parts.items())
    for change in result.changes:
        known = {item.path for item in change.properties}
        paths = [path for path in change.diff if path not in known]
        yield f"{change.op} {change.type.rpartition(':')[2]} {change.name}" + (
            f" ({', '.join(paths)})" if paths else ""
        )
        for item in change.properties:
            yield f"  {item.path}: {_value(item.old)} → {_value(item.new)}"


def _value(value: str | None) -> str:
    if value is None:
        return "nothing"
    return value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}… ({len(value)} characters)"
