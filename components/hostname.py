"""A hostname of the lease on the shared HTTP edge: Ingress or HTTPRoute (kubernetes-objects.md §2.9–2.10)."""

from __future__ import annotations

from components.checks import hostname as checked_hostname
from components.checks import service_name
from components.edge_options import ingress_annotations, route_annotations
from components.labels import AKASH, Object, lease_labels, metadata
from lease.hostnames import route_name
from lease.spec import HostnameSpec, IngressMode, LeaseSpec

__all__ = ["hostname_object"]

_GATEWAY = "gateway.networking.k8s.io"


def hostname_object(spec: LeaseSpec, hostname: HostnameSpec) -> Object:
    """The object that routes requests for one hostname to one service, in the cluster's mode."""
    match spec.cluster.ingress_mode:
        case IngressMode.INGRESS:
            return _ingress(spec, hostname)
        case IngressMode.GATEWAY_API:
            return _route(spec, hostname)


def _ingress(spec: LeaseSpec, hostname: HostnameSpec) -> Object:
    """The Ingress. It has no TLS block, so that the controller's default certificate serves."""
    backend = {"service": {"name": _service(hostname), "port": {"number": hostname.external_port}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": _metadata(spec, hostname, ingress_annotations(hostname)),
        "spec": {
            "ingressClassName": spec.cluster.ingress_class,
            "rules": [{"host": hostname.hostname, "http": {"paths": [path]}}],
        },
    }


def _route(spec: LeaseSpec, hostname: HostnameSpec) -> Object:
    """The HTTPRoute. It has no timeouts of the Gateway API, since the edge's own annotations carry them. TLS is on the
    Gateway.
    """
    cluster = spec.cluster
    gateway = {"name": cluster.gateway_name, "namespace": cluster.gateway_namespace}
    rule = {
        "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
        "backendRefs": [{"name": _service(hostname), "port": hostname.external_port}],
    }
    return {
        "apiVersion": f"{_GATEWAY}/v1",
        "kind": "HTTPRoute",
        "metadata": _metadata(spec, hostname, route_annotations(hostname, cluster.proxy_buffer_size)),
        "spec": {
            "parentRefs": [{"group": _GATEWAY, "kind": "Gateway"} | gateway],
            "hostnames": [hostname.hostname],
            "rules": [rule],
        },
    }


def _metadata(spec: LeaseSpec, hostname: HostnameSpec, annotations: dict[str, str]) -> Object:
    name = route_name(checked_hostname("hostname", hostname.hostname))
    labels = {AKASH: "true"} | lease_labels(spec.lease)
    return metadata(name, spec.namespace, labels=labels, annotations=annotations)


def _service(hostname: HostnameSpec) -> str:
    return service_name(f"service of hostname {hostname.hostname}", hostname.service)
