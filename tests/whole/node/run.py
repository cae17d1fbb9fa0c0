"""`python -m tests.whole.node.run [--long] [PYTEST ARGUMENTS]`: the tests of the real node, in a fresh enclosure.

`--long` runs the long tests too, makes the provider's image for `tests/whole/inside` (in an enclosure of its own),
and builds Traefik, Ingress-NGINX and a CA. With arguments those tests run that they name. A machine that cannot run a
real node skips all with the reason; with CI set that is a failure.
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
from devnet.tools import ensure_tools

_PYTEST = ("-q", "-p", "no:xdist", "--durations", "10")
_NODE, _INSIDE = "tests/whole/node", "tests/whole/inside"


def main() -> int:
    problems = missing_requirements()
    for problem in problems:
        print(f"The tests of the real node are skipped: {problem}", file=sys.stderr)
    if problems:
        return 1 if os.environ.get("CI") else 0
    if sys.argv[1:2] == ["--long"]:
        ensure_tools(("pebble",))  # nothing can be downloaded inside
    match sys.argv[1:]:
        case ["--long"]:
            return _pytest(_edges(), *_PYTEST, _NODE, "-m", "node") or _inside(*_PYTEST, _INSIDE, "-m", "node")
        case ["--long", *chosen] if any(text.startswith(_INSIDE) for text in chosen):
            return _inside(*chosen)
        case ["--long", *chosen]:
            return _pytest(_edges(), *chosen)
        case chosen:
            return _pytest([], *(chosen or (*_PYTEST, _NODE, "-m", "node and not long")))


def _inside(*arguments: str) -> int:
    """Make the image out here, since an enclosure reaches no mirror of Debian, and run the tests that use it."""
    made = subprocess.call([sys.executable, "-m", "devnet.image"])
    return made or _pytest([], *arguments)


def _pytest(options: Sequence[str], *arguments: str) -> int:
    programs = Path(sys.executable).parent
    enclosed: list[str | Path] = [programs / "lessor", "devnet", "enclosed", *options, "--"]
    return subprocess.call([*enclosed, programs / "pytest", *arguments])


def _edges() -> Sequence[str]:
    """The options that build the edges of the long tests."""
    kinds = [EdgeKind.TRAEFIK, *([] if missing_nginx() else [EdgeKind.NGINX])]
    return [f"--edge={kind}" for kind in kinds]


if __name__ == "__main__":
    sys.exit(main())
