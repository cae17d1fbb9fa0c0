"""The mounts of an enclosure, made by its first process before anything else runs there."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["KUBELET", "REPLACED", "make_mounts"]

_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")
_SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""Machine-wide settings that a kubelet changes, with the values it wants. It reads and writes files instead."""
_FIXED = {"/var/lib/cni": "lib-cni", "/var/lib/kubelet": "lib-kubelet"}
"""Folders of the machine that no option moves, and the enclosure's own in their place. Whatever its root folder is, a
kubelet makes its socket for device plugins in the second, and removes the other files there.
"""
KUBELET = Path("/run/lessor/kubelet")
"""The kubelet's root folder, which is FOLDER/kubelet. The kubelet makes sockets below it, and the path of a socket has
at most 107 bytes: in a folder with a long path the kubelet would not start.
"""
REPLACED = ("/proc", "/run", "/sys", "/var/log", *_FIXED)
"""Folders of the machine that nobody sees inside."""


def make_mounts(folder: Path) -> None:
    """Mount /sys and the cgroup hierarchies anew, private /run, /var/log and _FIXED, and stand-ins for sysctls.

    Raises CalledProcessError.
    """
    _cgroups()
    for name in ("run", "var/log"):  # sockets of containerd's shims; /var/log/containers: neither can be configured
        _mount("-t", "tmpfs", "-o", "mode=755", name, f"/{name}")
    for name in ("lib-cni", "lib-kubelet", "kubelet", "sysctl", "volumes"):
        (folder / name).mkdir(exist_ok=True)
    for name in ("/run/netns", "/run/lock", str(KUBELET), *_FIXED):
        Path(name).mkdir(parents=True, exist_ok=True)
    for place, name in _FIXED.items():
        _mount("--bind", str(folder / name), place)
    _mount("--bind", str(folder / "kubelet"), str(KUBELET))
    _mount("--make-rshared", str(KUBELET))
    for number, (name, value) in enumerate(_SYSCTLS.items()):
        file = folder / "sysctl" / str(number)
        file.write_text(value + "\n")
        _mount("--bind", str(file), f"/proc/sys/{name}")


def _cgroups() -> None:
    """The hierarchies as the cgroup namespace shows them: their root is the enclosure's own cgroup."""
    # before /sys: runc takes the first cgroup line of mountinfo, even that of a hidden mount
    _run("umount", "--recursive", "/sys/fs/cgroup")
    _run("umount", "/sys")
    _mount("-t", "sysfs", "sysfs", "/sys")  # the one of the enclosure's network namespace
    _mount("-t", "tmpfs", "-o", "mode=755", "cgroup", "/sys/fs/cgroup")
    kinds = {name: ("cgroup", name) for name in _CONTROLLERS}
    kinds |= {"systemd": ("cgroup", "none,name=systemd"), "unified": ("cgroup2", "rw")}
    for name, (kind, options) in kinds.items():
        place = Path("/sys/fs/cgroup", name)
        place.mkdir()
        _mount("-t", kind, "-o", options, "cgroup", str(place))


def _mount(*arguments: str) -> None:
    _run("mount", *arguments)


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True)
