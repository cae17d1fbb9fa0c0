"""`python -m devnet.node.entrance FOLDER -- COMMAND…`: becomes COMMAND inside the enclosure of FOLDER."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from devnet.errors import EnclosureFailed
from devnet.node.cgroups import enter_cgroups
from devnet.node.enclosure import ENCLOSURE_VARIABLE, first_process

__all__: list[str] = []


def _main(folder: Path, command: list[str]) -> None:
    first = first_process(folder)
    enter_cgroups(map(Path, (folder / "cgroups").read_text().split()))
    os.environ[ENCLOSURE_VARIABLE] = str(folder)
    namespaces = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup")
    os.execvp("nsenter", ["nsenter", f"--target={first}", *namespaces, f"--wd={Path.cwd()}", *command])  # noqa: S606


if __name__ == "__main__":
    try:
        _main(Path(sys.argv[1]), sys.argv[sys.argv.index("--") + 1 :])
    except EnclosureFailed as error:
        sys.exit(str(error))
