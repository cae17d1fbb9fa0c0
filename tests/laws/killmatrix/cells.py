"""A cell of the matrix: one operation of a lease, one engine event, one victim; and how it is played."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lightkube import Client

from lease.spec import LeaseSpec
from tests.laws.killmatrix.checks import (
    asked,
    forget_pool,
    gone,
    left_in_cluster,
    left_of_run,
    wrong_in_state,
    wrong_with,
)
from tests.laws.killmatrix.events import event_name
from tests.laws.killmatrix.leases import OldAndNew, old_and_new
from tests.laws.killmatrix.slot import Reply, Slot, Trap
from tests.world.patience import PATIENCE_S

__all__ = ["OPERATIONS", "Cell", "Outcome", "judged", "play", "played_without_a_kill"]

OPERATIONS = ("create", "update", "destroy")
NAMESPACE_S = 2 * PATIENCE_S
"""A namespace takes 5 s at least, and several tens on a busy machine."""


@dataclass(frozen=True, order=True)
class Cell:
    operation: str
    event: str
    victim: str


@dataclass(frozen=True)
class Outcome:
    """`effect`: unharmed (the operation succeeded in spite of it), repaired (a later attempt did), not running (there
    was nothing to kill), no such event, or FAILED. `seconds` from the kill to the converged lease. `said`: first error.
    """

    effect: str
    seconds: float = 0.0
    attempts: int = 0
    said: str = ""

    @property
    def good(self) -> bool:
        return self.effect in ("unharmed", "repaired", "not running")


async def play(slot: Slot, client: Client, cell: Cell) -> tuple[Outcome, asyncio.Task[list[str]] | None]:
    """The outcome, and a task that waits for the end of the namespace and tells what is left: the slot is free by then.

    The lease is made, the operation is cut, converges, is examined, and everything is destroyed.
    """
    lease = old_and_new()
    trap = Trap(cell.victim, cell.event, lambda event: event_name(event, lease.short))
    try:
        return await _outcome(slot, client, lease, trap=trap, operation=cell.operation)
    except (TimeoutError, AssertionError, OSError, LookupError, ValueError) as error:
        return Outcome("FAILED", said=f"{type(error).__name__} {error}"), None


async def played_without_a_kill(slot: Slot, client: Client) -> dict[str, list[str]]:
    """The names of all events of each operation, in the order of this run."""
    seen: dict[str, list[str]] = {}
    lease = old_and_new()
    for operation, order in (("create", _run(lease.old)), ("update", _run(lease.new)), ("destroy", _end(lease))):
        trap = Trap("", "", lambda event: event_name(event, lease.short))
        reply = await slot.order(order, trap)
        assert reply.ok and not reply.said, reply
        seen[operation] = list(dict.fromkeys(trap.seen))
    await asked(forget_pool, client, lease.pool)
    return seen


async def _outcome(
    slot: Slot, client: Client, lease: OldAndNew, *, trap: Trap, operation: str
) -> tuple[Outcome, asyncio.Task[list[str]] | None]:
    if operation in ("update", "destroy"):
        before = await slot.order(_run(lease.new if operation == "destroy" else lease.old))
        assert before.ok and not before.said, f"the lease could not be made: {before.said}"
    wanted = lease.new if operation == "update" else lease.old
    reply = await slot.order(_end(lease) if operation == "destroy" else _run(wanted), trap)
    found = [] if reply.ok else [f"it did not converge: {reply.said[-1]}"]
    if operation != "destroy" and reply.ok:
        found += await asked(lambda: list(_examined(slot, client, wanted, lease)))
        ended = await slot.order(_end(lease))
        found += [f"the destroy after it: {said}" for said in ended.said]
    found += await asked(lambda: list(_left(slot, client, lease)))
    watching = asyncio.create_task(_watch_the_end(client, lease.namespace))
    return judged(trap, reply, found), watching


def judged(trap: Trap, reply: Reply, found: list[str]) -> Outcome:
    """The outcome of a cell that came to its end; `found` is what was wrong."""
    said = reply.said[0] if reply.said else ""
    seconds = round(reply.at - trap.killed_at, 1) if trap.killed_at else 0.0
    attempts = 1 + len(reply.said) + reply.restarts
    if found:
        return Outcome("FAILED", seconds, attempts, "; ".join(found))
    if trap.event not in trap.seen:
        return Outcome("no such event", 0.0, attempts, said)
    if trap.missed:
        return Outcome("not running", 0.0, attempts, said)
    return Outcome("repaired" if attempts > 1 else "unharmed", seconds, attempts, said)


def _examined(slot: Slot, client: Client, wanted: LeaseSpec, lease: OldAndNew) -> Iterator[str]:
    yield from wrong_with(client, wanted, lease.pool)
    yield from wrong_in_state(slot.config, wanted)
    yield from left_of_run(slot, lease.namespace)


def _left(slot: Slot, client: Client, lease: OldAndNew) -> Iterator[str]:
    if slot.config.folder(lease.namespace).exists():
        yield "the stack's folder"
    yield from left_of_run(slot, lease.namespace)
    forget_pool(client, lease.pool)


async def _watch_the_end(client: Client, namespace: str) -> list[str]:
    deadline = time.monotonic() + NAMESPACE_S
    while not await asked(gone, client, namespace) and time.monotonic() < deadline:
        await asyncio.sleep(1)
    return await asked(lambda: list(left_in_cluster(client, namespace)))


def _run(spec: LeaseSpec) -> dict[str, Any]:
    return {"spec": spec.canonical_json()}


def _end(lease: OldAndNew) -> dict[str, Any]:
    return {"gone": lease.namespace}
