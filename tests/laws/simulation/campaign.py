"""Plays seed after seed in one process and notes each block in a file; a later call goes on after the last block.

`python -m tests.laws.simulation.campaign LOG`. A seed that breaks a rule is shortened and written into the file too.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator
from pathlib import Path

from tests.laws.simulation.run import STEPS, alone, commit, run_seed, shorten, told

__all__ = ["main", "next_seed", "play_block"]

_BLOCK = 25
_NOTED = re.compile(r"seeds (\d+)-(\d+) ", re.ASCII)


def next_seed(log: Path) -> int:
    """The seed after the highest block in `log`, 0 without one."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return max((int(found[2]) + 1 for found in _NOTED.finditer(text)), default=0)


def play_block(seeds: range, *, at: str, defect: str = "") -> Iterator[str]:
    """The lines of a block: first its broken seeds, as short as they become, and last what was played."""
    began, broken = time.process_time(), 0
    for seed in seeds:
        result = run_seed(seed, defect=defect)
        if result.problems:
            broken += 1
            yield f"at {at}, {told(shorten(result, defect=defect))}"
    held, spent = len(seeds) - broken, f"{time.process_time() - began:.0f} s of CPU"
    yield f"seeds {seeds.start}-{seeds.stop - 1} of {STEPS} steps at {at}: {held} held, {broken} broken, {spent}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.laws.simulation.campaign")
    parser.add_argument("log", type=Path)
    parser.add_argument("--until", type=int, default=10_000)
    parser.add_argument("--commit", default="", help="what is played, where the folder is no checkout")
    options = parser.parse_args()
    alone()
    at = options.commit or commit()
    while (first := next_seed(options.log)) < options.until:
        for line in play_block(range(first, min(first + _BLOCK, options.until)), at=at):
            with options.log.open("a") as log:
                log.write(line + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
