"""Entry point of the policy pack: the language host runs this folder as a program."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # The host's working directory is this folder, so the package itself is only importable if it is installed.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from policies.pack import serve

    serve()
