"""What runs in the cluster's own pods on a real node: name service, edge, and the speaker that announces addresses."""

from __future__ import annotations

from typing import Any

from devnet.node.network import OUTSIDE

__all__ = ["EDGE_SERVICE", "workload_objects"]

EDGE_SERVICE = "10.96.0.80"
_Object = dict[str, Any]
_RBAC = "rbac.authorization.k8s.io"
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


def workload_objects() -> list[_Object]:
    """Every object, in the order in which to create them."""
    return [*_name_service(), *_edge(), *_speaker()]


def _name_service() -> list[_Object]:
    where, labels = "kube-system", {"k8s-app": "kube-dns"}
    rules = [
        _rule("", "endpoints", "services", "pods", "namespaces"),
        _rule("discovery.k8s.io", "endpointslices"),
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
        *_account("coredns", where, rules),
        _object("v1", "ConfigMap", "coredns", where, data={"Corefile": _COREFILE}),
        _workload("Deployment", "coredns", where, labels=labels, pod=pod),
        _service("kube-dns", where, selector=labels, ports=ports, address="10.96.0.10"),
    ]


def _edge() -> list[_Object]:
    where, labels = "ingress-nginx", {"app.kubernetes.io/name": "ingress-nginx"}
    rules = [_rule("", "services"), _rule("networking.k8s.io", "ingresses")]
    container = {
        "name": "edge",
        "image": "lessor.test/edge:1",
        "ports": [{"containerPort": 80, "hostPort": 80}],
        "readinessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
    }
    pod = {"serviceAccountName": "edge", "containers": [container]}
    namespace = _object("v1", "Namespace", where)
    namespace["metadata"]["labels"] = labels
    return [
        namespace,
        *_account("edge", where, rules),
        _workload("Deployment", "edge", where, labels=labels, pod=pod),
        _service("edge", where, selector=labels, ports=[{"port": 80}], address=EDGE_SERVICE),
    ]


def _speaker() -> list[_Object]:
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
        *_account("speaker", where, everything),
        _workload("DaemonSet", "speaker", where, labels=labels, pod=pod),
    ]


def _account(name: str, namespace: str, rules: list[_Object]) -> list[_Object]:
    """A service account and the cluster role with these rules."""
    role = f"devnet:{name}"
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    reference = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role}
    return [
        _object("v1", "ServiceAccount", name, namespace),
        _object(f"{_RBAC}/v1", "ClusterRole", role, rules=rules),
        _object(f"{_RBAC}/v1", "ClusterRoleBinding", role, roleRef=reference, subjects=[subject]),
    ]


def _rule(group: str, *resources: str) -> _Object:
    return {"apiGroups": [group], "resources": list(resources), "verbs": ["get", "list", "watch"]}


def _workload(kind: str, name: str, namespace: str, *, labels: dict[str, str], pod: _Object) -> _Object:
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return _object("apps/v1", kind, name, namespace, spec=spec)


def _service(name: str, namespace: str, *, selector: dict[str, str], ports: list[_Object], address: str) -> _Object:
    spec = {"clusterIP": address, "selector": selector, "ports": ports}
    return _object("v1", "Service", name, namespace, spec=spec)


def _object(version: str, kind: str, name: str, namespace: str = "", **fields: Any) -> _Object:
    metadata: _Object = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}
