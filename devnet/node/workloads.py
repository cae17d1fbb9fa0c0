"""What runs in the cluster's own pods on a real node: name service, and the speaker that announces addresses."""

from __future__ import annotations

from devnet.node.manifests import Object, account, manifest, read_rule, service, workload
from devnet.node.network import OUTSIDE

__all__ = ["workload_objects"]

_COREFILE = f"""
.:53 {{
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 5
    }}
    hosts {{
        {OUTSIDE["internet"]} internet.example
        fallthrough
    }}
    cache 5
}}
"""


def workload_objects() -> list[Object]:
    """Name service and speaker, in the order in which to create them."""
    return [*_name_service(), *_speaker()]


def _name_service() -> list[Object]:
    where, labels = "kube-system", {"k8s-app": "kube-dns"}
    rules = [
        read_rule("", "endpoints", "services", "pods", "namespaces"),
        read_rule("discovery.k8s.io", "endpointslices"),
    ]
    container = {
        "name": "coredns",
        "image": "lessor.test/coredns:1",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [{"containerPort": 53, "protocol": protocol} for protocol in ("UDP", "TCP")],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "20m", "memory": "30Mi"}, "limits": {"memory": "170Mi"}},
        "volumeMounts": [{"name": "configuration", "mountPath": "/etc/coredns"}],
    }
    pod = {
        "serviceAccountName": "coredns",
        "dnsPolicy": "Default",
        "containers": [container],
        "volumes": [{"name": "configuration", "configMap": {"name": "coredns"}}],
    }
    ports = [{"name": f"dns-{protocol.lower()}", "port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    return [
        *account("coredns", where, rules),
        manifest("v1", "ConfigMap", "coredns", where, data={"Corefile": _COREFILE}),
        workload("Deployment", "coredns", where, labels=labels, pod=pod),
        service("kube-dns", where, selector=labels, ports=ports, address="10.96.0.10"),
    ]


def _speaker() -> list[Object]:
    where, labels = "metallb-system", {"component": "speaker"}
    fields = {"METALLB_NODE_NAME": "spec.nodeName", "METALLB_POD_NAME": "metadata.name"}
    container = {
        "name": "speaker",
        "image": "lessor.test/metallb-speaker:1",
        "args": [f"--namespace={where}", "--port=7472", "--host=127.0.0.1", "--log-level=info"],
        "env": [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()],
        "securityContext": {"capabilities": {"add": ["NET_RAW"], "drop": ["ALL"]}},
    }
    pod = {
        "serviceAccountName": "speaker",
        "hostNetwork": True,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    return [
        *account("speaker", where, everything),
        workload("DaemonSet", "speaker", where, labels=labels, pod=pod),
    ]
