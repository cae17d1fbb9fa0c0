"""`python -m devnet.controlplane DATA [--detached]` runs the supervisor. `ControlPlane` starts it.

Standard input is the reading end of the holders' FIFO, except with `--detached`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from devnet.controlplane.supervisor import supervise


def _main(data: str, *options: str) -> int:
    return asyncio.run(supervise(Path(data), holders=None if "--detached" in options else 0))


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
