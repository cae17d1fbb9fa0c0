"""A real node for the devnet: kubelet, containerd, kube-proxy and a policy controller in namespaces of their own.

    from devnet.node import Enclosure, missing_requirements

    with Enclosure.start(Path(".devnet/enclosure")) as enclosure:
        subprocess.run(enclosure.command(["ip", "address"]))

An *enclosure* is a set of mount, UTS, IPC, network, PID and cgroup namespaces that cannot reach the machine's network.
Control plane, chain, provider and tests run inside an enclosure unchanged; a second network namespace in it plays the
rest of the world. The machine's own settings are never changed, and everything ends with the enclosure's first process
(docs/dev/real-node.md).
"""

from __future__ import annotations

from devnet.node.enclosure import Enclosure, check_place, is_enclosed, own_enclosure
from devnet.node.requirements import missing_requirements

__all__ = ["Enclosure", "check_place", "is_enclosed", "missing_requirements", "own_enclosure"]
