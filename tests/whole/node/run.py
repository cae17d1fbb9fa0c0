"""`python -m tests.whole.node.run [--long] [PYTEST ARGUMENTS]`: the tests of the real node, in a fresh enclosure.

`--long` runs the long tests too and builds Traefik and Ingress-NGINX, which they need. A machine that cannot run a real
node skips all with the reason; with CI set that is a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from devnet.node import missing_requirements
from devnet.node.edges import EdgeKind
from devnet.node.nginx import missing_nginx

_PYTEST = ("-q", "-p", "no:xdist", "--durations", "10", "tests/whole/node", "-m")


def main() -> int:
    problems = missing_requirements()
    for problem in problems:
        print(f"The tests of the real node are skipped: {problem}", file=sys.stderr)
    if problems:
        return 1 if os.environ.get("CI") else 0
    programs = Path(sys.executable).parent
    match sys.argv[1:]:
        case ["--long", *chosen]:
            edges, arguments = _edges(), chosen or (*_PYTEST, "node")
        case chosen:
            edges, arguments = [], chosen or (*_PYTEST, "node and not long")
    return subprocess.call([programs / "lessor", "devnet", "enclosed", *edges, "--", programs / "pytest", *arguments])


def _edges() -> Sequence[str]:
    """The options that build the edges of the long tests."""
    kinds = [EdgeKind.TRAEFIK, *([] if missing_nginx() else [EdgeKind.NGINX])]
    return [f"--edge={kind}" for kind in kinds]


if __name__ == "__main__":
    sys.exit(main())
