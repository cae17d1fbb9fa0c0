"""`python -m devnet.node.runner FOLDER`: makes an enclosure's cgroups and namespaces, and waits for its end.

The kernel kills the first process of the enclosure when this process dies, and everything inside with the first one.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from devnet.node.cgroups import enter_cgroups, make_cgroups, remove_abandoned_cgroups, remove_cgroups
from devnet.node.enclosure import write_first

__all__: list[str] = []

_UNSHARE = (
    "unshare",
    *("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"),
    *("--fork", "--kill-child=SIGKILL", "--propagation=private", "--mount-proc"),
)
_PR_SET_PDEATHSIG = 1
_FIRST_S = 10.0
_CGROUPS = "lessor-enclosure-"


def _main(folder: Path) -> int:
    remove_abandoned_cgroups(_CGROUPS)
    cgroups = make_cgroups(f"{_CGROUPS}{os.getpid()}", record=folder / "cgroups")
    libc = ctypes.CDLL(None)

    def enter() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        enter_cgroups(cgroups)

    process = subprocess.Popen(
        [*_UNSHARE, sys.executable, "-m", "devnet.node.first", str(folder)],
        preexec_fn=enter,  # noqa: PLW1509  between fork and exec: system calls only
        start_new_session=True,
    )
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: _forward(process.pid))
    write_first(folder, _await_child(process.pid))
    status = process.wait()
    left = remove_cgroups(cgroups)
    print(f"the enclosure ended with {status}; cgroups that remain: {left or 'none'}", flush=True)  # noqa: T201
    return status


def _await_child(unshare: int) -> int:
    deadline = time.monotonic() + _FIRST_S
    while time.monotonic() < deadline:
        if child := _child(unshare):
            return child
        time.sleep(0.005)
    raise SystemExit("unshare started no process")


def _child(pid: int) -> int:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    return int(children[0]) if children else 0


def _forward(unshare: int) -> None:
    if first := _child(unshare):
        os.kill(first, signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1])))
