"""What a lease leaves on a node: everything of the node that a pod, a volume or a Service makes, one line each."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import grpc

from devnet.node.configuration import CONTAINERD_SOCKET
from devnet.node.wire import encode, values

__all__ = ["KINDS", "node_traces"]

KINDS = (
    *("process", "cgroup", "mount", "loop device", "interface", "network namespace", "route", "address"),
    *("packet filter", "chain", "address set", "folder", "container", "snapshot", "image lease"),
)
"""Each kind of trace; a running lease with a volume has all except an image lease, which a pull has while it lasts."""
_PODS = "kubepods"
_HASH = re.compile(r"\b((?:KUBE|CNI)-[A-Z0-9-]*?-|KUBE-)[A-Za-z0-9]{12,}\b")
"""kube-proxy's, kube-router's and portmap's names: kube-router gives all its chains new ones with each round."""
_STAMP = re.compile(r" (?:timeout|initval) \S+")
_LAYER = "sha256:"
"""The name of a snapshot that is a layer of an image begins so: images stay for the next lease."""
_CONTAINERD: Mapping[str, tuple[str, bytes]] = {
    "container": ("containers.v1.Containers/List", b""),
    "image lease": ("leases.v1.Leases/List", b""),
    "snapshot": ("snapshots.v1.Snapshots/List", encode((1, "overlayfs"))),
}
"""Kind to a method of containerd's API and its request. The answers are lists; an item's name is in its field 1."""


def node_traces(folder: Path) -> frozenset[str]:
    """Every trace of pods, volumes and Services on the node of this enclosure, as `kind: name`. Runs inside it."""
    found = {
        "process": _processes(),
        "cgroup": _cgroups(),
        "mount": (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()),
        "loop device": _loop_devices(folder),
        "interface": (name.split("@")[0] for name in _words("ip -o link show", 1)),
        "network namespace": _names("/run/netns"),
        "route": _lines("ip route show"),
        "address": (*_names("/run/cni-ipam/lessor"), *_names("/var/lib/cni/results"), *_names("/var/lib/cni/cache")),
        "packet filter": (line for line in _rules() if line.startswith("-A")),
        "chain": _counted(line.split()[0] for line in _rules() if line.startswith(":")),
        "address set": _counted(_STAMP.sub("", _anonymous(line)) for line in _lines("ipset save")),
        "folder": _folders(folder),
        **{kind: _of_containerd(kind) for kind in _CONTAINERD},
    }
    return frozenset(f"{kind}: {name}" for kind, all_names in found.items() for name in all_names)


def _processes() -> Iterator[str]:
    """Processes of containers, and containerd's shims."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            name = (process / "comm").read_text().strip()
            if name.startswith("containerd-shim") or _PODS in (process / "cgroup").read_text():
                yield f"{process.name} {name}"
        except OSError:
            continue


def _cgroups() -> Iterator[str]:
    for pods in Path("/sys/fs/cgroup").glob(f"*/{_PODS}"):
        for top, folders, _ in os.walk(pods):
            yield from (str(Path(top, name)) for name in folders)


def _loop_devices(folder: Path) -> Iterator[str]:
    """Those whose file is the enclosure's: loop devices belong to the machine."""
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        if (file := backing.read_text().strip()).startswith(str(folder)):
            yield f"{backing.parts[3]} {file}"


def _rules() -> list[str]:
    return [_anonymous(line) for program in ("iptables-save", "ip6tables-save") for line in _lines(program)]


def _folders(folder: Path) -> Iterator[str]:
    """Data of volumes, and what kubelet and containerd keep for each pod."""
    kept = ("kubelet/pods", "pod-logs", "volumes", "containerd/io.containerd.grpc.v1.cri/*")
    own = [path for pattern in kept for path in folder.glob(f"{pattern}/*")]
    state = [*Path("/run/containerd/io.containerd.runtime.v2.task/k8s.io").glob("*"), *Path("/var/log").rglob("*.log")]
    yield from map(str, (*own, *state, *Path("/run/containerd/io.containerd.grpc.v1.cri").glob("*/*")))


def _of_containerd(kind: str) -> Iterator[str]:
    method, request = _CONTAINERD[kind]
    with grpc.insecure_channel(f"unix://{CONTAINERD_SOCKET}") as channel:
        path, metadata = f"/containerd.services.{method}", (("containerd-namespace", "k8s.io"),)
        for answer in channel.unary_stream(path, bytes, bytes)(request, metadata=metadata):
            for item in values(answer, 1):
                name = next(values(item, 1)).decode()
                if not name.startswith(_LAYER):
                    yield name


def _counted(names: Iterable[str]) -> Iterator[str]:
    """Names that occur more than once, each time with its number."""
    for name, count in Counter(map(_anonymous, names)).items():
        yield from (f"{name} ({number} of this name)" for number in range(1, count + 1))


def _anonymous(line: str) -> str:
    """The line without hashes in the names of chains and sets."""
    return _HASH.sub(r"\1*", line)


def _names(folder: str) -> list[str]:
    return [path.name for path in Path(folder).glob("*")]


def _words(command: str, place: int) -> list[str]:
    return [line.split()[place].rstrip(":") for line in _lines(command)]


def _lines(command: str) -> list[str]:
    return subprocess.run(command.split(), capture_output=True, text=True, check=True).stdout.splitlines()
