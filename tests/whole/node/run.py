"""`python -m tests.whole.node.run [--long | PYTEST ARGUMENTS]`: the tests of the real node, in a fresh enclosure.

A machine that cannot run a real node skips them with the reason; with CI set that is a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from devnet.node import missing_requirements

_PYTEST = ("-q", "-p", "no:xdist", "--durations", "10", "tests/whole/node", "-m")


def main() -> int:
    problems = missing_requirements()
    for problem in problems:
        print(f"The tests of the real node are skipped: {problem}", file=sys.stderr)
    if problems:
        return 1 if os.environ.get("CI") else 0
    programs = Path(sys.executable).parent
    command = [
        str(programs / "lessor"),
        "devnet",
        "enclosed",
        "--",
        str(programs / "pytest"),
        *_arguments(sys.argv[1:]),
    ]
    return subprocess.call(command)


def _arguments(given: Sequence[str]) -> Sequence[str]:
    match given:
        case []:
            return (*_PYTEST, "node and not long")
        case ["--long"]:
            return (*_PYTEST, "node")
        case _:
            return given


if __name__ == "__main__":
    sys.exit(main())
