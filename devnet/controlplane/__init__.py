"""A real Kubernetes control plane on loopback: etcd, API server, controllers, scheduler; kwok simulates nodes and pods.

    from devnet.controlplane import ControlPlane
    from devnet.tools import CONTROL_PLANE, ensure_tools

    with ControlPlane.start(Path(".devnet/cluster"), ensure_tools(CONTROL_PLANE)) as plane:
        plane.kubeconfig, plane.api_server, plane.ca
        subprocess.run([plane.toolbox.program("kubectl"), "get", "nodes"], env=plane.env())

Pods are Ready at once, whatever their image. Claims of beta1, beta2, beta3 and default bind. A LoadBalancer Service
gets an address once an IPAddressPool exists. Pod and Service addresses are not on this machine: never connect to them.
Every process is a child of a supervisor, which ends when the last holder releases it or ends (see `supervisor`).
"""

from __future__ import annotations

from devnet.controlplane.contents import DEFAULT_NODES, STORAGE_CLASSES, NodeSpec, default_nodes
from devnet.controlplane.holders import is_supervised
from devnet.controlplane.members import AUDIT_LOG, AUDIT_POLICY
from devnet.controlplane.plane import ControlPlane, stop_supervisor
from devnet.controlplane.state import State, read_state

__all__ = [
    "AUDIT_LOG",
    "AUDIT_POLICY",
    "DEFAULT_NODES",
    "STORAGE_CLASSES",
    "ControlPlane",
    "NodeSpec",
    "State",
    "default_nodes",
    "is_supervised",
    "read_state",
    "stop_supervisor",
]
