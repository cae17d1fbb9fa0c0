"""A reboot of the real node: everything that lives in memory goes, the disk stays, and the node's programs start anew.

The control plane shares the enclosure and goes on, as if it stood on another machine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from devnet.errors import EnclosureFailed
from devnet.node.cgroups import remove_cgroups
from devnet.node.configuration import CONTAINERD_SOCKET
from devnet.node.members import kill_member
from devnet.node.node import RealNode

__all__ = ["reboot_node"]

_PROGRAMS = ("containerd", "kubelet", "kube-proxy", "kube-network-policies")
_SHIM = "containerd-shim"
_PODS = "kubepods"
_IN_MEMORY = ("/run/containerd", "/run/cni-ipam")
_CNI_NAMESPACE = "/run/netns/cni-"
_WAIT_S = 15.0


def reboot_node(node: RealNode) -> None:
    """Kill programs, shims and containers, remove what they kept in memory, and start the programs again.

    Returns when the programs are started; the kubelet then makes the pods' containers anew. Runs inside the enclosure.
    Raises EnclosureFailed.
    """
    for name in reversed(_PROGRAMS):
        kill_member(name)
    _end_containers()
    _clear_memory()
    for name in _PROGRAMS:
        node.start_program(name)
        if name == "containerd":
            _wait_for(CONTAINERD_SOCKET)


def _end_containers() -> None:
    deadline = time.monotonic() + _WAIT_S
    while pids := list(_container_processes()):
        if time.monotonic() > deadline:
            raise EnclosureFailed(f"processes of containers do not end: {pids}")
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _container_processes() -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_shim = (folder / "comm").read_text().startswith(_SHIM)
            if is_shim or _PODS in (folder / "cgroup").read_text():
                yield int(folder.name)


def _clear_memory() -> None:
    """Mounts of containers and volumes, network namespaces, cgroups, and files of a folder that is a tmpfs."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for place in reversed(mounts):
        if place.startswith((_CNI_NAMESPACE, *_IN_MEMORY)) or "/kubelet/pods/" in place:
            subprocess.run(["umount", "--lazy", place], check=True)
    for namespace in Path(_CNI_NAMESPACE).parent.glob(f"{Path(_CNI_NAMESPACE).name}*"):
        namespace.unlink()
    for folder in _IN_MEMORY:
        shutil.rmtree(folder, ignore_errors=True)
    remove_cgroups(Path("/sys/fs/cgroup").glob(f"*/{_PODS}"))


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise EnclosureFailed(f"{path} did not appear within {_WAIT_S:g} s")
        time.sleep(0.05)
