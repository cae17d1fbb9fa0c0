"""A reboot of the real node: everything that lives in memory goes, the disk stays, and the node's programs start anew.

The control plane shares the enclosure and goes on, as if it stood on another machine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path

from devnet.errors import EnclosureFailed
from devnet.node.cgroups import remove_cgroups
from devnet.node.configuration import CONTAINERD_SOCKET
from devnet.node.members import kill_member, member_pid
from devnet.node.node import RealNode

__all__ = ["reboot_node"]

_PROGRAMS = ("containerd", "kubelet", "kube-proxy", "kube-network-policies")
_SHIM = "containerd-shim"
_PODS = "kubepods"
_IN_MEMORY = ("/run/containerd", "/run/cni-ipam")
_CNI_NAMESPACE = "/run/netns/cni-"
_KUBELET_HEALTH = "http://127.0.0.1:10248/healthz"
_ANSWER_S = 5.0
_WAIT_S = 120.0


def reboot_node(node: RealNode) -> None:
    """Kill programs, shims and containers, remove what they kept in memory, and start the programs again.

    Returns when the kubelet is healthy, which then makes the pods' containers anew. Runs inside the enclosure.
    Raises EnclosureFailed.
    """
    for name in reversed(_PROGRAMS):
        kill_member(name)
    _end_containers()
    _clear_memory()
    for name in _PROGRAMS:
        node.start_program(name)
        if name == "containerd":
            _wait_for(_containerd_listens, "containerd does not listen")
    _wait_for(lambda: _kubelet_is_healthy(node), "the kubelet is not healthy")


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


def _containerd_listens() -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(CONTAINERD_SOCKET))
        except OSError:
            return False
    return True


def _kubelet_is_healthy(node: RealNode) -> bool:
    """Start the kubelet again where it has ended, as a node's service manager does: it ends when containerd listens
    but does not answer yet.
    """
    if member_pid("kubelet") is None:
        node.start_program("kubelet")
    try:
        with urllib.request.urlopen(_KUBELET_HEALTH, timeout=_ANSWER_S) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False


def _wait_for(done: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not done():
        if time.monotonic() > deadline:
            raise EnclosureFailed(f"{otherwise} {_WAIT_S:g} s after the reboot")
        time.sleep(0.05)
