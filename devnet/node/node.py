"""The real node, started inside an enclosure beside a control plane that runs there too."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from devnet.controlplane import ControlPlane
from devnet.controlplane.api import Api
from devnet.controlplane.certificates import Certificates
from devnet.errors import EnclosureFailed
from devnet.node.configuration import CONTAINERD_SOCKET, NODE_NAME, REGISTRY_PORT, NodeFiles
from devnet.node.images import write_images
from devnet.node.members import start_member
from devnet.node.workloads import workload_objects
from devnet.tools import Toolbox

__all__ = ["RealNode"]

_READY_S = 60.0


class RealNode:
    """The programs of one node. `toolbox` must hold NODE; all methods run inside the enclosure of `folder`."""

    def __init__(self, folder: Path, plane: ControlPlane, toolbox: Toolbox) -> None:
        self.folder = folder
        self._plane = plane
        self._toolbox = toolbox
        self._files = NodeFiles(folder, plane.data)
        port = int(plane.api_server.rpartition(":")[2])
        self.api = Api(port, Certificates(plane.data / "pki"))

    @classmethod
    def start(cls, folder: Path, plane: ControlPlane, toolbox: Toolbox) -> RealNode:
        """Start every program and return when the node takes pods. Raises EnclosureFailed with the log's place."""
        node = cls(folder, plane, toolbox)
        write_images(folder / "images", toolbox.programs)
        node._files.write(toolbox.program("runc"))
        for name in ("registry", "provisioner", "containerd"):
            node.start_program(name)
        node._wait(CONTAINERD_SOCKET.exists, "containerd's socket")
        node.start_program("kubelet")
        node.start_program("kube-proxy")
        node._wait(node._is_registered, "the node's registration")
        node.start_program("kube-network-policies")  # it ends where its node does not exist yet
        for manifest in workload_objects():
            node.api.apply(manifest)
        node._wait(lambda: node.api.nodes_are_ready(1), "the node's readiness")
        return node

    def start_program(self, name: str) -> int:
        """Start one program of the node, or start it again after its end; its process id."""
        return self._start(name, self._commands()[name])

    def start_gpus(self, count: int) -> int:
        """Give the node cards, played by a device plugin, but no labels; the plugin's process id."""
        argv: list[str | Path] = [sys.executable, "-m", "devnet.node.gpus", str(count)]
        return self._start("gpus", argv)

    def _start(self, name: str, argv: Sequence[str | Path]) -> int:
        path = os.pathsep.join([str(self._toolbox.program("containerd").parent), os.environ.get("PATH", os.defpath)])
        checkout = str(Path(__file__).resolve().parents[2])
        return start_member(name, argv, {"PATH": path, "NODE_NAME": NODE_NAME, "PYTHONPATH": checkout})

    def wait_for_workloads(self) -> None:
        """Return when name service, edge and speaker run. Raises EnclosureFailed."""
        self._wait(self._workloads_run, "readiness of name service, edge and speaker")

    def _commands(self) -> dict[str, list[str | Path]]:
        tool, files, own = self._toolbox.program, self._files, (sys.executable, "-m")
        port = str(self._plane.api_server.rpartition(":")[2])
        return {
            "registry": [*own, "devnet.node.registry", self.folder / "images", str(REGISTRY_PORT)],
            "provisioner": [*own, "devnet.node.provisioner", self._plane.data, self.folder / "volumes", port],
            "containerd": [tool("containerd"), f"--config={files.configuration / 'containerd.toml'}"],
            "kubelet": [tool("kubelet"), *files.kubelet_arguments()],
            "kube-proxy": [tool("kube-proxy"), f"--config={files.configuration / 'kube-proxy.yaml'}"],
            "kube-network-policies": [tool("kube-network-policies"), *files.policy_arguments()],
        }

    def _is_registered(self) -> bool:
        return any(node["metadata"]["name"] == NODE_NAME for node in self.api.request("GET", "/api/v1/nodes")["items"])

    def _workloads_run(self) -> bool:
        deployments = self.api.request("GET", "/apis/apps/v1/deployments")["items"]
        daemons = self.api.request("GET", "/apis/apps/v1/namespaces/metallb-system/daemonsets")["items"]
        ready = [item["status"].get("readyReplicas", 0) for item in deployments if item["metadata"]["name"] in _OWN]
        return len(ready) == len(_OWN) and all(ready) and any(item["status"].get("numberReady") for item in daemons)

    def _wait(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _READY_S
        while not done():
            if time.monotonic() > deadline:
                raise EnclosureFailed(f"{what} did not come within {_READY_S:.0f} s; logs: {self.folder / 'logs'}")
            time.sleep(0.05)


_OWN = ("coredns", "edge")
