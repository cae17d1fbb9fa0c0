"""`python -m devnet.node.entrance FOLDER -- COMMAND…`: runs COMMAND inside the enclosure of FOLDER.

This program is the command's parent and ends with its status, or with 128 and the number of the signal that ended the
command. util-linux's nsenter does not serve: Ctrl-C ends nsenter at once, while the command still cleans up.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

from devnet.children import bound_to_parent
from devnet.errors import EnclosureFailed
from devnet.node.cgroups import enter_cgroups
from devnet.node.enclosure import first_process
from devnet.node.signals import run_forwarding

__all__: list[str] = []

_NAMESPACES = ("cgroup", "ipc", "uts", "net", "pid", "mnt")
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


def _main(folder: Path, command: list[str]) -> int:
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # which a background job of a shell inherits
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback for Ctrl-C before the command runs
    place = str(Path("/proc/self/cwd").readlink())  # Path.cwd() fails for a folder that was removed
    first = first_process(folder)
    enter_cgroups(map(Path, (folder / "cgroups").read_text().split()))
    _enter_namespaces(first)
    _change_folder(place)
    try:
        status = run_forwarding(command, bind=bound_to_parent(seen_as=0))
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)  # noqa: T201
        return _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
    return status if status >= 0 else 128 - status


def _change_folder(place: str) -> None:
    try:
        os.chdir(place)
    except OSError as error:
        problem = f"the current folder {place} does not serve inside ({error.strerror}); change to another one"
        raise EnclosureFailed(problem) from None


def _enter_namespaces(pid: int) -> None:
    """Enter all namespaces of a process; that of PIDs holds the caller's children, not the caller."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptors = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in _NAMESPACES]
    for descriptor in descriptors:
        if libc.setns(descriptor, 0):
            number = ctypes.get_errno()
            raise EnclosureFailed(f"its namespaces cannot be entered: {os.strerror(number)}")
        os.close(descriptor)


if __name__ == "__main__":
    try:
        sys.exit(_main(Path(sys.argv[1]), sys.argv[sys.argv.index("--") + 1 :]))
    except (EnclosureFailed, OSError) as error:
        sys.exit(str(error))
