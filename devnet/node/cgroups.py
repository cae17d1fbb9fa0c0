"""The cgroups of an enclosure: children of the caller's own cgroups, so that the limits of those stay in force."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["enter_cgroups", "make_cgroups", "remove_abandoned_cgroups", "remove_cgroups"]

_MOUNT = Path("/sys/fs/cgroup")
_REMOVAL_S = 5.0


def make_cgroups(name: str, *, record: Path | None = None) -> list[Path]:
    """Create a cgroup `name` below the caller's own in each mounted hierarchy and return their folders.

    The calling process holds a lock on each until it ends, which keeps `remove_abandoned_cgroups` away.
    `record`: a file that names the folders, a line each, before any is made; a killed caller leaves none unnamed.
    """
    folders = {controller: folder / name for controller, folder in _own().items()}
    if record is not None:
        record.write_text("".join(f"{folder}\n" for folder in folders.values()))
    return [_make(controller, folder) for controller, folder in folders.items()]


def enter_cgroups(folders: Iterable[Path]) -> None:
    """Move the calling process into each of these cgroups."""
    for folder in folders:
        (folder / "cgroup.procs").write_text("0")


def remove_cgroups(folders: Iterable[Path]) -> list[Path]:
    """Remove these cgroups with all below them, and return those that still hold a process after 5 s.

    A path outside of the cgroups' mount is ignored.
    """
    return [folder for folder in folders if folder.is_relative_to(_MOUNT) and not _removed(folder)]


def remove_abandoned_cgroups(prefix: str) -> None:
    """Remove the children of the caller's own cgroups whose names begin with `prefix`, whose maker has ended, and that
    hold no process. The folder that recorded them may be gone, as a temporary folder that its owner removed.
    """
    for own in _own().values():
        for folder in own.glob(f"{prefix}*"):
            with _lock(folder) as locked:
                if locked and not any(_processes(folder)):
                    _removed(folder)


def _processes(folder: Path) -> Iterator[str]:
    """The ids of the processes in a cgroup and below it; none when it goes meanwhile."""
    for path in _bottom_up(folder):
        with contextlib.suppress(OSError):
            yield from (path / "cgroup.procs").read_text().split()


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[bool]:
    """Whether the block has the lock on a cgroup, which another process may hold or have removed."""
    with contextlib.ExitStack() as stack:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def _own() -> dict[str, Path]:
    """Controller to the folder of the caller's cgroup, of the hierarchies that are mounted (cgroups(7))."""
    found = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, names, path = line.split(":", 2)
        controller = "unified" if number == "0" else names.removeprefix("name=")
        if (_MOUNT / controller).is_dir():
            found[controller] = _MOUNT / controller / path.removeprefix("/")
    return found


def _make(controller: str, folder: Path) -> Path:
    while not (folder.is_dir() and _lock_until_exit(folder)):  # `remove_abandoned_cgroups` may come between the two
        folder.mkdir(exist_ok=True)
    if controller == "cpuset":  # a new cpuset has no processors, so no process may enter it
        for key in ("cpuset.cpus", "cpuset.mems"):
            (folder / key).write_text((folder.parent / key).read_text())
        (folder / "cgroup.clone_children").write_text("1")
    return folder


def _bottom_up(top: Path) -> Iterator[Path]:
    """A cgroup and all below it, each after its children. Another process may remove some meanwhile."""
    yield from (Path(folder) for folder, _, _ in os.walk(top, topdown=False))


def _lock_until_exit(folder: Path) -> bool:
    """Lock a cgroup until this process ends; False when it was removed meanwhile."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    if folder.is_dir():
        return True
    os.close(descriptor)
    return False


def _removed(top: Path) -> bool:
    deadline = time.monotonic() + _REMOVAL_S
    while top.is_dir() and time.monotonic() < deadline:
        for folder in _bottom_up(top):
            with contextlib.suppress(OSError):  # busy until the kernel has reaped the last process
                folder.rmdir()
        if top.is_dir():
            time.sleep(0.05)
    return not top.is_dir()
