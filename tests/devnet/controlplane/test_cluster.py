"""The behaviour of the devnet's cluster that tests and the demo need, on one shared control plane."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path

import pytest

from devnet.controlplane import STORAGE_CLASSES, ControlPlane

pytestmark = pytest.mark.devnet


def manifest(*objects: dict) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def deployment(name: str, *, gpus: int = 0, replicas: int = 1) -> dict:
    labels = {"app": name}
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    container = {"name": "main", "image": "registry.invalid/never-pulled:1", "resources": resources}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def claim(name: str, storage_class: str | None) -> dict:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def test_a_deployment_becomes_available(devnet_cluster, namespace):
    kubectl = devnet_cluster.kubectl
    kubectl("-n", namespace, "apply", "-f", "-", stdin=manifest(deployment("web", replicas=2)))
    kubectl("-n", namespace, "wait", "--for=condition=Available", "deployment/web", "--timeout=30s")
    pods = json.loads(kubectl("-n", namespace, "get", "pods", "-o", "json"))["items"]
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    assert all(pod["status"]["podIP"].startswith("10.244.") for pod in pods)
    assert all(pod["status"]["containerStatuses"][0]["ready"] for pod in pods)


def test_claims_of_every_class_bind_and_their_volumes_go_with_them(devnet_cluster, namespace):
    kubectl = devnet_cluster.kubectl
    claims = [claim(f"of-{name}", name) for name in STORAGE_CLASSES] + [claim("of-none", None)]
    kubectl("-n", namespace, "apply", "-f", "-", stdin=manifest(*claims))
    kubectl("-n", namespace, "wait", "--for=jsonpath={.status.phase}=Bound", "pvc", "--all", "--timeout=30s")
    bound = json.loads(kubectl("-n", namespace, "get", "pvc", "-o", "json"))["items"]
    assert {item["spec"]["storageClassName"] for item in bound} == set(STORAGE_CLASSES)
    volumes = [f"pv/{item['spec']['volumeName']}" for item in bound]
    kubectl("-n", namespace, "delete", "pvc", "--all", "--timeout=30s")
    kubectl("wait", "--for=delete", *volumes, "--timeout=30s")


def test_a_claim_of_an_unknown_class_stays_pending(devnet_cluster, namespace):
    kubectl = devnet_cluster.kubectl
    kubectl("-n", namespace, "apply", "-f", "-", stdin=manifest(claim("odd", "beta9"), claim("known", "beta1")))
    kubectl("-n", namespace, "wait", "--for=jsonpath={.status.phase}=Bound", "pvc/known", "--timeout=30s")
    assert kubectl("-n", namespace, "get", "pvc", "odd", "-o", "jsonpath={.status.phase}") == "Pending"


def test_a_stateful_set_runs_with_its_volume(devnet_cluster, namespace):
    kubectl = devnet_cluster.kubectl
    stateful = deployment("db") | {"kind": "StatefulSet"}
    stateful["spec"]["volumeClaimTemplates"] = [claim("data", "beta2")]
    kubectl("-n", namespace, "apply", "-f", "-", stdin=manifest(stateful))
    kubectl("-n", namespace, "rollout", "status", "statefulset/db", "--timeout=30s")
    assert kubectl("-n", namespace, "get", "pvc", "data-db-0", "-o", "jsonpath={.status.phase}") == "Bound"


def test_a_job_succeeds(devnet_cluster, namespace):
    kubectl = devnet_cluster.kubectl
    container = {"name": "main", "image": "registry.invalid/never-pulled:1"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"}, "spec": {"template": template}}
    kubectl("-n", namespace, "apply", "-f", "-", stdin=manifest(job))
    kubectl("-n", namespace, "wait", "--for=condition=Complete", "job/once", "--timeout=30s")


def test_a_load_balancer_has_no_address_until_a_pool_gives_one(devnet_cluster, namespace, unique_address):
    kubectl = devnet_cluster.kubectl
    annotations = {"metallb.io/address-pool": namespace}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "leased", "annotations": annotations},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": "web"}},
    }
    pool = {
        "apiVersion": "metallb.io/v1beta1",
        "kind": "IPAddressPool",
        "metadata": {"name": namespace, "namespace": "metallb-system"},
        "spec": {"addresses": [f"{unique_address}/32"], "autoAssign": False},
    }
    address = "jsonpath={.status.loadBalancer.ingress[0].ip}"
    kubectl("-n", namespace, "apply", "-f", "-", stdin=manifest(service))
    assert kubectl("-n", namespace, "get", "service", "leased", "-o", address) == ""
    kubectl("apply", "-f", "-", stdin=manifest(pool))
    try:
        kubectl("-n", namespace, "wait", f"--for={address}={unique_address}", "service/leased", "--timeout=30s")
    finally:
        kubectl("-n", namespace, "delete", "service", "leased", "--timeout=30s")
        kubectl("-n", "metallb-system", "delete", "ipaddresspool", namespace)


def test_more_gpus_than_a_node_has_stay_pending_and_fewer_run(devnet_cluster, namespace):
    kubectl = devnet_cluster.kubectl
    kubectl(
        "-n", namespace, "apply", "-f", "-", stdin=manifest(deployment("greedy", gpus=9), deployment("modest", gpus=1))
    )
    kubectl("-n", namespace, "wait", "--for=condition=Available", "deployment/modest", "--timeout=30s")
    condition = 'jsonpath={.items[0].status.conditions[?(@.type=="PodScheduled")].message}'
    assert "Insufficient nvidia.com/gpu" in kubectl("-n", namespace, "get", "pods", "-l", "app=greedy", "-o", condition)
    host = kubectl("-n", namespace, "get", "pods", "-l", "app=modest", "-o", "jsonpath={.items[0].spec.nodeName}")
    assert host == "node-3"


def test_nodes_carry_the_labels_that_workloads_depend_on(devnet_cluster):
    nodes = json.loads(devnet_cluster.kubectl("get", "nodes", "-o", "json"))["items"]
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes}
    plain = {"akash.network": "true"} | {f"akash.network/capabilities.storage.class.{n}": "1" for n in STORAGE_CLASSES}
    assert all(plain.items() <= found.items() for found in labels.values())
    model = "akash.network/capabilities.gpu.vendor.nvidia.model.a100"
    gpus = dict.fromkeys((model, f"{model}.ram.80Gi", f"{model}.interface.sxm"), "8")
    assert (gpus | {"nvidia.com/gpu.present": "true"}).items() <= labels["node-3"].items()
    assert not any("gpu" in key for key in labels["node-1"])


def test_the_cluster_has_the_provider_s_storage_classes_and_no_address_pool(devnet_cluster):
    kubectl = devnet_cluster.kubectl
    classes = json.loads(kubectl("get", "storageclass", "-l", "akash.network=true", "-o", "json"))["items"]
    assert {item["metadata"]["name"] for item in classes} == set(STORAGE_CLASSES)
    pools = json.loads(kubectl("-n", "metallb-system", "get", "ipaddresspools", "-o", "json"))["items"]
    assert not [pool for pool in pools if pool["metadata"]["name"] in ("default", "devnet")]


def test_nothing_listens_beyond_loopback(devnet_cluster):
    listening = list(listeners(devnet_cluster.plane))
    assert len(listening) >= 3, "etcd twice and the API server"
    assert [str(address) for address in listening if not address.is_loopback] == []


def listeners(plane: ControlPlane):
    """Local addresses of every listening TCP and every UDP socket of the members and the supervisor (proc(5))."""
    pids = [plane.state().pid, *plane.state().members.values()]
    ours = {inode for pid in pids for inode in socket_inodes(pid)}
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in ours and (fields[3] == "0A" or table.startswith("udp")):
                yield address_of(fields[1].partition(":")[0])


def socket_inodes(pid: int) -> list[str]:
    targets = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()]
    return [target[8:-1] for target in targets if target.startswith("socket:[")]


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The kernel prints addresses as 32-bit words in the machine's (little-endian) order."""
    words = [bytes.fromhex(text[start : start + 8])[::-1] for start in range(0, len(text), 8)]
    return ipaddress.ip_address(b"".join(words))
