"""`make kill-matrix`: play what is left of the matrix and write its document. Goes on where it was stopped."""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import tempfile
import time
from pathlib import Path

from devnet.controlplane import ControlPlane
from devnet.tools import CONTROL_PLANE, ENGINE, Toolbox, ensure_tools
from tests.laws.killmatrix.cells import Cell, Outcome
from tests.laws.killmatrix.matrix import Bench, Record, bench
from tests.laws.killmatrix.slot import ROOT
from tests.laws.killmatrix.table import document

__all__ = ["main"]

NAMES = {"list": "kill-matrix-list", "sdk": "kill-matrix"}
"""The names of record and document: those of two engines are never mixed."""
SEED = 13
"""Cells are played in a shuffled order, always the same: a part of the matrix is then a fair part of it."""


def main() -> int:
    """Exit status 1 if a cell failed."""
    told = _arguments()
    path = Path(told.record or ROOT / "build" / f"{NAMES[told.engine]}.jsonl")
    written = Path(told.document or ROOT / "docs" / f"{NAMES[told.engine]}.md")
    if told.fresh:
        path.unlink(missing_ok=True)
    record = Record(path)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _with_a_cluster(record, told)
    finally:
        if record.events:
            written.write_text(document(record.events, record.outcomes, told.engine))
    failed = [cell for cell, outcome in record.outcomes.items() if not outcome.good]
    print(f"{len(record.outcomes)} cells run, {len(failed)} failed; {written}")
    return 1 if failed else 0


def _with_a_cluster(record: Record, told: argparse.Namespace) -> None:
    toolbox = ensure_tools((*CONTROL_PLANE, *ENGINE), build=False)
    with (
        tempfile.TemporaryDirectory(prefix="killmatrix-") as folder,
        ControlPlane.start(Path(folder) / "controlplane", toolbox) as plane,
    ):
        asyncio.run(_play(record, Path(folder), toolbox, kubeconfig=plane.kubeconfig, told=told))


async def _play(record: Record, folder: Path, toolbox: Toolbox, *, kubeconfig: Path, told: argparse.Namespace) -> None:
    async with bench(folder, toolbox, kubeconfig=kubeconfig, slots=told.slots, engine=told.engine) as made:
        record.begin(await made.events())  # of today's code: what was played of events it no longer has says nothing
        left = record.left(again=told.again)
        random.Random(SEED).shuffle(left)
        await _until(made, left, record=record, seconds=told.minutes * 60)


async def _until(made: Bench, left: list[Cell], *, record: Record, seconds: float) -> None:
    """No cell is begun after `seconds`; those that run come to their end."""
    deadline = time.monotonic() + seconds
    total, done = len(left), 0

    def add(cell: Cell, outcome: Outcome) -> None:
        nonlocal done
        done += 1
        record.add(cell, outcome)
        shown = f"{cell.operation} | {cell.event} | {cell.victim}: {outcome.effect} {outcome.seconds:g} s"
        print(f"[{done}/{total}] {shown} {'' if outcome.good else outcome.said}", flush=True)

    await made.run((cell for cell in left if time.monotonic() < deadline), add)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=list(NAMES), default="list", help="how the resident engine gets resources")
    parser.add_argument("--record", help="default: build/kill-matrix….jsonl")
    parser.add_argument("--document", help="default: docs/kill-matrix….md")
    parser.add_argument("--slots", type=int, default=4, help="leases at once")
    parser.add_argument("--minutes", type=float, default=85, help="no cell is begun after that")
    parser.add_argument("--fresh", action="store_true", help="forget what was run before")
    parser.add_argument("--again", action="store_true", help="also what failed before")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
