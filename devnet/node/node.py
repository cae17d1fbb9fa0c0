"""The real node, started inside an enclosure beside a control plane that runs there too."""

from __future__ import annotations

import http.client
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from devnet.controlplane import ControlPlane
from devnet.controlplane.api import RETRIED, Api, ApiError
from devnet.controlplane.certificates import Certificates
from devnet.errors import EnclosureFailed
from devnet.node.configuration import CONTAINERD_SOCKET, NODE_NAME, REGISTRY_PORT, NodeFiles
from devnet.node.edges import EdgeKind, definitions, edge_deployment, edge_objects, edge_tools
from devnet.node.images import Image, add_image, program_image, write_images
from devnet.node.manifests import Object, manifest
from devnet.node.members import start_member
from devnet.node.nginx import nginx_image
from devnet.node.workloads import workload_objects
from devnet.tools import Toolbox

__all__ = ["RealNode"]

_READY_S = 120.0


class RealNode:
    """The programs of one node. `toolbox` must hold NODE; all methods run inside the enclosure of `folder`."""

    def __init__(self, folder: Path, plane: ControlPlane, toolbox: Toolbox) -> None:
        self.folder = folder
        self._plane = plane
        self._toolbox = toolbox
        self._files = NodeFiles(folder, plane.data)
        self._edge = EdgeKind.OWN
        port = int(plane.api_server.rpartition(":")[2])
        self._pki = Certificates(plane.data / "pki")
        self.api = Api(port, self._pki)

    @classmethod
    def start(cls, folder: Path, plane: ControlPlane, toolbox: Toolbox, *, edge: EdgeKind = EdgeKind.OWN) -> RealNode:
        """Start every program and return when the node takes pods. Raises EnclosureFailed with the log's place.

        `toolbox` must hold the edge's tools too.
        """
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
        for each in workload_objects():
            node._apply(each)
        node.change_edge(edge, toolbox)
        node._wait(lambda: node.api.nodes_are_ready(1), "the node's readiness")
        return node

    def change_edge(self, kind: EdgeKind, toolbox: Toolbox) -> None:
        """Run this edge, and no other. `toolbox` must hold its tools. `wait_for_workloads` waits until it serves."""
        for other in EdgeKind:
            if other is not kind:
                namespace, name = edge_deployment(other)
                self._send(self.api.delete, manifest("apps/v1", "Deployment", name, namespace))
        for tool in edge_tools(kind):
            add_image(self.folder / "images", self._edge_image(kind, toolbox.program(tool), toolbox.share(tool)))
            for each in definitions(toolbox.share(tool)):
                self._apply(each)
        for each in edge_objects(kind, self._pki):
            self._apply(each)
        self._edge = kind

    def _edge_image(self, kind: EdgeKind, program: Path, share: Path) -> Image:
        if kind is EdgeKind.NGINX:
            return nginx_image(program, share, self.folder)
        return program_image(program.name, program)

    def _apply(self, each: Object) -> None:
        self._send(self.api.apply, each)

    def _send(self, act: Callable[[Object], None], each: Object) -> None:
        """Call `act(each)` until the API server takes it: a kind is served a moment after its definition."""

        def sent() -> bool:
            act(each)
            return True

        self._wait(sent, f"the API server's consent to {each['kind']} {each['metadata']['name']}")

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
        own = ("coredns", edge_deployment(self._edge)[1])
        ready = [item["status"].get("readyReplicas", 0) for item in deployments if item["metadata"]["name"] in own]
        return len(ready) == len(own) and all(ready) and any(item["status"].get("numberReady") for item in daemons)

    def _wait(self, done: Callable[[], bool], what: str) -> None:
        """Call `done` until it is true. EnclosureFailed names what a busy API server said last, or refused for good."""
        deadline, logs = time.monotonic() + _READY_S, self.folder / "logs"
        while True:
            said = ""
            try:
                if done():
                    return
            except (ApiError, OSError, http.client.HTTPException) as error:
                said = f" ({type(error).__name__}: {error})"
                if isinstance(error, ApiError) and error.status not in RETRIED:
                    raise EnclosureFailed(f"{what} did not come{said}; logs: {logs}") from None
            if time.monotonic() > deadline:
                raise EnclosureFailed(f"{what} did not come within {_READY_S:.0f} s{said}; logs: {logs}")
            time.sleep(0.05)
