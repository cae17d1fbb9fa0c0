"""The documents of the matrix: a summary, then a table an operation. Equal outcomes give the same text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tests.laws.killmatrix import slot
from tests.laws.killmatrix.cells import Cell, Outcome

__all__ = ["document"]

VICTIMS = slot.VICTIMS["list"]

_TITLES: Mapping[slot.Engine, str] = {
    "sdk": "# Kill matrix\n",
    "list": """# Kill matrix of the list

The resident engine gets a lease's resources as a list, which is the default of `LESSOR_ENGINE_PROGRAM`. The
[kill matrix](kill-matrix.md) of Pulumi's SDK in a worker has the same cells.
""",
}
_HEAD = """
Written by `make kill-matrix` (tests/laws/killmatrix); not by hand. In every cell one process is killed (SIGKILL) at one
event of the resident engine, while a lease of two services, hostname, volume, pull credentials and a leased address
(14 objects) is created, updated (another image, another hostname) or destroyed on the devnet. Events are those of a run
without accidents, every one of them; log lines and progress messages, whose number differs from run to run, are not
counted. The kill happens when the resident engine has reported the event and before the worker hears of it.

Then nobody helps. What died is started again (the daemon by the test, workers by the pool), and the lease has to
converge: every object once and as wanted, state and cluster agreeing, no lock, pending operation, mark, temporary file
or process left; after the destroy that follows no stack folder, no namespace and no object by label. Pools of leased
addresses outlive a stack by design (architecture §5) and are deleted by the test, as the lease loop does.

Victims: the resident engine, its Kubernetes plugin, the worker that asked for the operation, the daemon that holds
engine and lease loop. Seconds are from the kill to the converged lease, several leases at once on a shared machine,
rounded up to 1, 2, 5, 10, 20, 40, 80. Pulumi's words: before (resourcePre) and after (resOutputs) a step on a resource;
`(part)` is a component of Lessor, which groups objects and is none itself.

* **repaired**: the operation failed, or died with its daemon, and a later attempt made it good
* **unharmed**: the operation succeeded all the same
* **not running**: the victim had not started yet, or had gone already
* **FAILED**: it did not converge, or something was wrong or left; the reasons are below the table
"""
_STEPS = (1, 2, 5, 10, 20, 40, 80)

Outcomes = Mapping[Cell, Outcome]
Events = Mapping[str, Sequence[str]]


def document(events: Events, outcomes: Outcomes, engine: slot.Engine = "list") -> str:
    """Markdown."""
    parts = [_TITLES[engine] + _HEAD, *_summary(events, outcomes)]
    for operation in events:
        parts += ["", f"## {operation}", "", *_table(operation, events[operation], outcomes=outcomes)]
        parts += _failures(operation, outcomes)
    return "\n".join(parts) + "\n"


def _summary(events: Events, outcomes: Outcomes) -> Iterator[str]:
    cells = sum(len(names) * len(VICTIMS) for names in events.values())
    known = [o for cell, o in outcomes.items() if cell.event in events.get(cell.operation, ())]
    failed = sum(not outcome.good for outcome in known)
    yield "## Summary\n"
    yield f"{len(known)} of {cells} cells run, {failed} failed.\n"
    yield "| operation | events | victim | run | repaired | unharmed | not running | FAILED | within |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for operation, names in events.items():
        for victim in VICTIMS:
            mine = [
                o for c, o in outcomes.items() if (c.operation, c.victim) == (operation, victim) and c.event in names
            ]
            count = Counter(outcome.effect for outcome in mine)
            bad = sum(not outcome.good for outcome in mine)
            numbers = [len(mine), count["repaired"], count["unharmed"], count["not running"], bad]
            slowest = _within(max((outcome.seconds for outcome in mine if outcome.good), default=0)) if mine else ""
            yield f"| {operation} | {len(names)} | {victim} | {' | '.join(map(str, numbers))} | {slowest} |"


def _table(operation: str, names: Sequence[str], *, outcomes: Outcomes) -> Iterator[str]:
    yield f"| event | {' | '.join(VICTIMS)} |"
    yield "|---" * (len(VICTIMS) + 1) + "|"
    for name in names:
        found = (outcomes.get(Cell(operation, name, victim)) for victim in VICTIMS)
        yield f"| {name} | {' | '.join(_shown(outcome) for outcome in found)} |"


def _shown(outcome: Outcome | None) -> str:
    if outcome is None:
        return "not run"
    if outcome.effect in ("repaired", "unharmed"):
        return f"{outcome.effect}, {_within(outcome.seconds)}"
    return outcome.effect


def _within(seconds: float) -> str:
    """A step, so that a second run gives the same text."""
    return f"{next((step for step in _STEPS if seconds <= step), math.ceil(seconds))} s"


def _failures(operation: str, outcomes: Outcomes) -> Iterator[str]:
    bad = sorted(cell for cell, outcome in outcomes.items() if cell.operation == operation and not outcome.good)
    if bad:
        yield ""
    for cell in bad:
        said = " ".join(outcomes[cell].said.split())[:300] or outcomes[cell].effect
        yield f"* {cell.event}, {cell.victim}: {said}"
