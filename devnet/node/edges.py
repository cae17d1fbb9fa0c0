"""The HTTP edges of a real node: the devnet's own reverse proxy, Ingress-NGINX, or Traefik with its providers for
Ingresses of NGINX, plain Ingresses and the Gateway API.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path

import yaml

from devnet.controlplane.certificates import Certificates
from devnet.node.manifests import Object, account, manifest, read_rule, service, workload
from devnet.node.network import NODE_PUBLIC_ADDRESS

__all__ = [
    "EDGE_SERVICE",
    "GATEWAY",
    "PLAIN_CLASS",
    "TRAEFIK_NAMESPACE",
    "EdgeKind",
    "definitions",
    "edge_deployment",
    "edge_objects",
    "edge_settings",
    "edge_tools",
]

EDGE_SERVICE = "10.96.0.80"
TRAEFIK_NAMESPACE = "traefik"
GATEWAY = "akash-gateway"
"""Name and namespace of the Gateway, as Lessor's settings have them by default."""
_GATEWAY_API = "gateway.networking.k8s.io"
_CLASS = "akash-ingress-class"
PLAIN_CLASS = "traefik-plain"
"""The class of Ingresses that Traefik's `kubernetesIngress` serves, which reads no annotations of NGINX."""
_NGINX_NAMESPACE = "ingress-nginx"
_NGINX_LABELS = {"app.kubernetes.io/name": "ingress-nginx"}


class EdgeKind(StrEnum):
    """Which program takes the requests for tenants' hostnames on ports 80 and 443 of the node."""

    OWN = "own"
    TRAEFIK = "traefik"
    NGINX = "ingress-nginx"


def edge_tools(kind: EdgeKind) -> tuple[str, ...]:
    """The programs that this edge needs in addition to NODE."""
    return {EdgeKind.TRAEFIK: ("traefik",), EdgeKind.NGINX: ("nginx-ingress-controller",)}.get(kind, ())


def edge_settings(kind: EdgeKind) -> Mapping[str, str]:
    """The settings of a provider whose tenants this edge serves."""
    if kind is not EdgeKind.TRAEFIK:
        return {}
    return {
        "LESSOR_EDGE_NAMESPACE": TRAEFIK_NAMESPACE,
        "LESSOR_EDGE": str(kind),
        "LESSOR_EDGE_ENDPOINT": f"{NODE_PUBLIC_ADDRESS}:80",
    }


def edge_deployment(kind: EdgeKind) -> tuple[str, str]:
    """Namespace and name of the edge's Deployment."""
    return {
        EdgeKind.OWN: (_NGINX_NAMESPACE, "edge"),
        EdgeKind.TRAEFIK: (TRAEFIK_NAMESPACE, "traefik"),
        EdgeKind.NGINX: (_NGINX_NAMESPACE, "controller"),
    }[kind]


def edge_objects(kind: EdgeKind, pki: Certificates) -> list[Object]:
    """The edge's objects, in the order in which to create them; Traefik's need `definitions` first."""
    match kind:
        case EdgeKind.OWN:
            return _own()
        case EdgeKind.TRAEFIK:
            return [*_traefik(), *_gateway(pki)]
        case EdgeKind.NGINX:
            return _nginx()


def definitions(share: Path) -> Iterator[Object]:
    """The definitions of the Gateway API from the data files of the built `traefik`; none in those of other edges."""
    for path in sorted((share / "crds").glob("*.yaml")):
        for document in yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader):
            if document and document["kind"] == "CustomResourceDefinition":
                yield document


def _own() -> list[Object]:
    where = _NGINX_NAMESPACE
    rules = [read_rule("", "services"), read_rule("networking.k8s.io", "ingresses")]
    container = {
        "name": "edge",
        "image": "lessor.test/edge:1",
        "ports": [{"containerPort": 80, "hostPort": 80}],
        "readinessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
    }
    pod = {"serviceAccountName": "edge", "containers": [container]}
    return [
        _namespace(where, _NGINX_LABELS),
        *account("edge", where, rules),
        workload("Deployment", "edge", where, labels=_NGINX_LABELS, pod=pod),
        service("edge", where, selector=_NGINX_LABELS, ports=[{"port": 80}], address=EDGE_SERVICE),
    ]


def _nginx() -> list[Object]:
    where, labels = _NGINX_NAMESPACE, {**_NGINX_LABELS, "app.kubernetes.io/component": "controller"}
    fields = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    container = {
        "name": "controller",
        "image": "lessor.test/ingress-nginx:1",
        "args": [
            "--controller-class=k8s.io/ingress-nginx",
            f"--ingress-class={_CLASS}",
            f"--configmap={where}/controller",
            "--enable-metrics=false",
        ],
        "env": [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()],
        "ports": [{"containerPort": port, "hostPort": port} for port in (80, 443)],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": 10254}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
    }
    # Debian's nginx 1.22 does not know `http2 on`.
    configuration = {"use-http2": "false"}
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    pod = {"serviceAccountName": "ingress-nginx", "containers": [container]}
    return [
        _namespace(where, _NGINX_LABELS),
        *account("ingress-nginx", where, everything),
        manifest("v1", "ConfigMap", "controller", where, data=configuration),
        _alone(workload("Deployment", "controller", where, labels=labels, pod=pod)),
    ]


def _alone(deployment: Object) -> Object:
    """The Deployment of a pod that needs the node's ports 80 and 443: its successor waits for its end."""
    deployment["spec"]["strategy"] = {"type": "Recreate"}
    return deployment


def _traefik() -> list[Object]:
    where, labels = TRAEFIK_NAMESPACE, {"app.kubernetes.io/name": "traefik"}
    container = {
        "name": "traefik",
        "image": "lessor.test/traefik:1",
        "args": _traefik_arguments(),
        "ports": [{"containerPort": port, "hostPort": port} for port in (80, 443)],
        "readinessProbe": {"httpGet": {"path": "/ping", "port": 8080}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
    }
    pod = {"serviceAccountName": "traefik", "containers": [container]}
    return [
        _namespace(where),
        *account("traefik", where, _traefik_rules()),
        manifest(
            "networking.k8s.io/v1", "IngressClass", PLAIN_CLASS, spec={"controller": "traefik.io/ingress-controller"}
        ),
        _alone(workload("Deployment", "traefik", where, labels=labels, pod=pod)),
    ]


def _traefik_arguments() -> list[str]:
    nginx, plain = "--providers.kubernetesingressnginx", "--providers.kubernetesingress"
    return [
        "--global.checknewversion=false",
        "--global.sendanonymoususage=false",
        "--log.level=INFO",
        "--accesslog=true",
        "--ping=true",
        "--entrypoints.traefik.address=:8080",
        "--entrypoints.web.address=:80",
        "--entrypoints.websecure.address=:443",
        f"{nginx}=true",
        f"{nginx}.ingressclass={_CLASS}",
        f"{nginx}.httpentrypoint=web",
        f"{nginx}.httpsentrypoint=websecure",
        f"{nginx}.throttleduration=200ms",
        f"{nginx}.proxyrequestbuffering=true",  # Ingress-NGINX's default; without it no body is too large
        f"{plain}=true",
        f"{plain}.ingressclass={PLAIN_CLASS}",
        f"{plain}.throttleduration=200ms",
        "--providers.kubernetesgateway=true",
        "--providers.kubernetesgateway.throttleduration=200ms",
    ]


def _traefik_rules() -> list[Object]:
    """The rights that Traefik's documentation lists for its two providers."""
    kinds = ("gatewayclasses", "gateways", "httproutes", "grpcroutes", "tcproutes", "tlsroutes")
    more = ("referencegrants", "backendtlspolicies", "listenersets")
    status = {
        "apiGroups": [_GATEWAY_API, "networking.k8s.io"],
        "resources": [f"{kind}/status" for kind in (*kinds, *more, "ingresses")],
        "verbs": ["update"],
    }
    return [
        read_rule("", "namespaces", "nodes", "pods", "services", "secrets", "configmaps", "endpoints"),
        read_rule("discovery.k8s.io", "endpointslices"),
        read_rule("networking.k8s.io", "ingresses", "ingressclasses"),
        read_rule(_GATEWAY_API, *kinds, *more),
        status,
    ]


def _gateway(pki: Certificates) -> list[Object]:
    """A Gateway that takes every namespace's routes, by HTTP and by HTTPS with the certificate `edge`."""
    pair = {"tls.crt": pki.certificate("edge").read_text(), "tls.key": pki.key("edge").read_text()}
    everyone = {"namespaces": {"from": "All"}}
    tls = {"mode": "Terminate", "certificateRefs": [{"name": "edge"}]}
    listeners = [
        {"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": everyone},
        {"name": "https", "port": 443, "protocol": "HTTPS", "allowedRoutes": everyone, "tls": tls},
    ]
    controller = {"controllerName": "traefik.io/gateway-controller"}
    spec = {"gatewayClassName": "traefik", "listeners": listeners}
    return [
        _namespace(GATEWAY),
        manifest("v1", "Secret", "edge", GATEWAY, type="kubernetes.io/tls", stringData=pair),
        manifest(f"{_GATEWAY_API}/v1", "GatewayClass", "traefik", spec=controller),
        manifest(f"{_GATEWAY_API}/v1", "Gateway", GATEWAY, GATEWAY, spec=spec),
    ]


def _namespace(name: str, labels: Mapping[str, str] | None = None) -> Object:
    namespace = manifest("v1", "Namespace", name)
    if labels:
        namespace["metadata"]["labels"] = dict(labels)
    return namespace
