"""What a machine must have before a real node can run on it, and the one command that brings what is missing."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path

__all__ = ["DEBIAN_PACKAGES", "missing_requirements"]

_KERNEL = (5, 4)
_PROGRAMS: Mapping[str, str] = {
    "iptables": "iptables",
    "ipset": "ipset",
    "conntrack": "conntrack",
    "ethtool": "ethtool",
    "busybox": "busybox-static",
    "ip": "iproute2",
    "mkfs.ext4": "e2fsprogs",
    "curl": "curl",
    "unshare": "util-linux",
}
"""Program to the Debian package that has it."""
_CNI = Path("/usr/lib/cni/ptp")
_BUILD: Mapping[str, str] = {"gcc": "gcc", "pkg-config": "pkg-config"}
_SECCOMP = ("/usr/include/seccomp.h", "/usr/include/x86_64-linux-gnu/seccomp.h", "/usr/local/include/seccomp.h")
_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")

DEBIAN_PACKAGES = (
    "containernetworking-plugins iptables ipset conntrack ethtool busybox-static iproute2 e2fsprogs "
    "gcc libc6-dev libseccomp-dev pkg-config curl"
)
"""All packages that a real node and the build of its programs need."""


def missing_requirements(*, build: bool = True) -> tuple[str, ...]:
    """What keeps a real node from running here, a sentence each; empty when nothing does.

    `build`: the programs of the node are not built yet, so a C compiler and libseccomp count too.
    """
    return (*_machine(), *_packages(build=build))


def _machine() -> tuple[str, ...]:
    problems = []
    if platform.system() != "Linux" or _version() < _KERNEL:
        problems.append(f"Linux {'.'.join(map(str, _KERNEL))} or newer is needed, this is {platform.platform()}")
    if os.geteuid() != 0:
        problems.append(
            "root is needed for namespaces, mounts and cgroups; run the command as root, for example by sudo"
        )
    absent = [name for name in _CONTROLLERS if not Path("/sys/fs/cgroup", name).is_dir()]
    if absent:
        problems.append(
            f"the cgroup v1 hierarchies {', '.join(absent)} are not mounted under /sys/fs/cgroup; "
            "cgroup v2 alone is not supported yet"
        )
    if "overlay" not in Path("/proc/filesystems").read_text():
        problems.append("the kernel has no overlay file system")
    return tuple(problems)


def _packages(*, build: bool) -> tuple[str, ...]:
    programs = {**_PROGRAMS, **(_BUILD if build else {})}
    absent = {package for program, package in programs.items() if shutil.which(program) is None}
    if not _CNI.exists():
        absent.add("containernetworking-plugins")
    if build and not any(Path(header).exists() for header in _SECCOMP):
        absent.add("libseccomp-dev")
    if not absent:
        return ()
    return (f"Debian packages are missing: {' '.join(sorted(absent))}; run `apt-get install {DEBIAN_PACKAGES}`",)


def _version() -> tuple[int, int]:
    major, minor, *_ = platform.release().split("-")[0].split(".")
    return int(major), int(minor)
