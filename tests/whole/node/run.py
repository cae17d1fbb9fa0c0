"""`python -m tests.whole.node.run [PYTEST ARGUMENTS]`: the tests of the real node, in a fresh enclosure.

A machine that cannot run a real node skips them with the reason; with CI set that is a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from devnet.node import missing_requirements

_PYTEST = ("-q", "-p", "no:xdist", "--durations", "10", "-m", "node and not long", "tests/whole/node")


def main() -> int:
    problems = missing_requirements()
    for problem in problems:
        print(f"The tests of the real node are skipped: {problem}", file=sys.stderr)
    if problems:
        return 1 if os.environ.get("CI") else 0
    programs = Path(sys.executable).parent
    command = [programs / "lessor", "devnet", "enclosed", "--", programs / "pytest", *(sys.argv[1:] or _PYTEST)]
    return subprocess.call(command)


if __name__ == "__main__":
    sys.exit(main())
