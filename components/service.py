"""Kubernetes Services of a lease's service: ClusterIP and NodePort (kubernetes-objects.md §2.7)."""

from __future__ import annotations

from collections.abc import Iterable

from components.labels import Object, metadata, selector, service_labels
from lease.spec import LeaseSpec, PortSpec, ServiceSpec

__all__ = ["cluster_service", "node_port_service", "service_objects"]


def service_objects(spec: LeaseSpec, service: ServiceSpec) -> tuple[Object, ...]:
    """The Services that have a port, ClusterIP first."""
    both = (cluster_service(spec, service), node_port_service(spec, service))
    return tuple(made for made in both if made is not None)


def cluster_service(spec: LeaseSpec, service: ServiceSpec) -> Object | None:
    """The Service for other services and for the HTTP edge, named after the service; None when every expose is a node
    port.
    """
    ports = [port for port in service.ports if not port.global_ or port.ingress]
    return _service(spec, service, service.name, ("ClusterIP", ports))


def node_port_service(spec: LeaseSpec, service: ServiceSpec) -> Object | None:
    """The Service for clients outside the cluster, `<service>-np`; None without a global expose that is not the HTTP
    edge's.
    """
    ports = [port for port in service.ports if port.global_ and not port.ingress]
    return _service(spec, service, f"{service.name}-np", ("NodePort", ports))


def _service(spec: LeaseSpec, service: ServiceSpec, name: str, kind: tuple[str, list[PortSpec]]) -> Object | None:
    type_, ports = kind
    if not ports:
        return None
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name, spec.namespace, labels=service_labels(spec, service)),
        "spec": {"type": type_, "ports": _ports(ports), "selector": selector(spec, service)},
    }


def _ports(ports: Iterable[PortSpec]) -> list[Object]:
    """The first expose of each external port and protocol; TCP and UDP may both use one number (§10 Q8)."""
    first: dict[tuple[int, str], PortSpec] = {}
    for port in ports:
        first.setdefault((port.external_port, port.proto.upper()), port)
    return [_port(port) for port in first.values()]


def _port(port: PortSpec) -> Object:
    return {
        "name": f"{port.index}-{port.external_port}",
        "protocol": port.proto.upper(),
        "port": port.external_port,
        "targetPort": port.port,
    }
