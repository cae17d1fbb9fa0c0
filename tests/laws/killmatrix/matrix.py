"""The whole matrix, several leases at once: which cells there are, what they came to, kept so that a run can go on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path

from lightkube import Client
from lightkube.config.kubeconfig import KubeConfig

from devnet.tools import Toolbox
from tests.laws.killmatrix.cells import Cell, Outcome, play, played_without_a_kill
from tests.laws.killmatrix.events import in_order
from tests.laws.killmatrix.slot import VICTIMS, Engine, Slot

__all__ = ["Bench", "Record", "all_cells", "bench"]

Events = Mapping[str, Sequence[str]]


class Bench:
    """Slots and the cluster they share."""

    def __init__(self, client: Client, slots: Sequence[Slot]) -> None:
        self._client = client
        self._slots = slots

    async def events(self) -> dict[str, list[str]]:
        """All events of a life without accidents, an operation each."""
        return {
            name: in_order(seen) for name, seen in (await played_without_a_kill(self._slots[0], self._client)).items()
        }

    async def run(self, cells: Iterable[Cell], told: Callable[[Cell, Outcome], None]) -> None:
        """Play all, each slot the next one that is left; `told` as soon as nothing more can come to light."""
        left = iter(cells)
        ends: list[asyncio.Task[None]] = []
        try:
            async with asyncio.TaskGroup() as group:
                for slot in self._slots:
                    group.create_task(self._one_after_another(slot, left, told=told, ends=ends))
        finally:
            await asyncio.gather(*ends)

    async def _one_after_another(
        self,
        slot: Slot,
        left: Iterable[Cell],
        *,
        told: Callable[[Cell, Outcome], None],
        ends: list[asyncio.Task[None]],
    ) -> None:
        for cell in left:
            outcome, watching = await play(slot, self._client, cell)
            ends.append(asyncio.create_task(_told_at_the_end(cell, outcome, watching=watching, told=told)))


async def _told_at_the_end(
    cell: Cell,
    outcome: Outcome,
    *,
    watching: asyncio.Task[list[str]] | None,
    told: Callable[[Cell, Outcome], None],
) -> None:
    left = await watching if watching else []
    told(cell, replace(outcome, effect="FAILED", said="left: " + "; ".join(left)) if left else outcome)


@asynccontextmanager
async def bench(
    folder: Path, toolbox: Toolbox, *, kubeconfig: Path, slots: int, engine: Engine = "list"
) -> AsyncIterator[Bench]:
    """`slots` engines on one cluster."""
    client = Client(KubeConfig.from_file(kubeconfig).get())
    made = [Slot(folder / f"slot{number}", toolbox, kubeconfig, engine=engine) for number in range(slots)]
    try:
        yield Bench(client, made)
    finally:
        await asyncio.gather(*(slot.close() for slot in made))
        client.close()


def all_cells(events: Events) -> list[Cell]:
    """Every event of every operation with every victim of the resident engine."""
    victims = VICTIMS["list"]
    return [Cell(operation, event, victim) for operation in events for event in events[operation] for victim in victims]


class Record:
    """What is known so far: one JSON object a line, the events first. Outlives the process that writes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.events: dict[str, list[str]] = {}
        self.outcomes: dict[Cell, Outcome] = {}
        lines = path.read_text().splitlines() if path.exists() else []
        for line in lines:
            self._take(line)

    def begin(self, events: dict[str, list[str]]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._append({"events": events})

    def add(self, cell: Cell, outcome: Outcome) -> None:
        self._append({"cell": asdict(cell), "outcome": asdict(outcome)})

    def left(self, *, again: bool = False) -> list[Cell]:
        """Cells that were not run; `again`: and those that failed."""
        return [
            cell
            for cell in all_cells(self.events)
            if cell not in self.outcomes or (again and not self.outcomes[cell].good)
        ]

    def _append(self, item: dict[str, object]) -> None:
        line = json.dumps(item)
        written = self._path.read_bytes() if self._path.exists() else b""
        half = written and not written.endswith(b"\n")  # of a process that was killed
        with self._path.open("a") as file:
            file.write(("\n" if half else "") + line + "\n")
        self._take(line)

    def _take(self, line: str) -> None:
        try:
            item = json.loads(line)
        except ValueError:
            return  # cut off in the middle of a line
        if "events" in item:
            self.events = item["events"]
        else:
            outcome = Outcome(**item["outcome"])
            if outcome.effect != "no such event":  # not played: left for the next run
                self.outcomes[Cell(**item["cell"])] = outcome
