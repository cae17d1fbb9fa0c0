"""What a lease may reach and who may reach it: NetworkPolicies (kubernetes-objects.md §2.2)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from components.errors import BuildError
from components.labels import MANIFEST_SERVICE, NAMESPACE, Object, metadata, namespace_labels
from lease.spec import IngressMode, LeaseSpec, PortSpec, ServiceSpec

__all__ = ["CLOSED_RANGES", "isolation_objects"]

CLOSED_RANGES = ("10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12", "169.254.0.0/16", "100.64.0.0/10")
"""Private ranges, then link-local (a cloud's metadata service) and carrier-grade NAT: no tenant reaches them (Q14)."""


def isolation_objects(spec: LeaseSpec) -> tuple[Object, ...]:
    """All policies of the lease, the general one first; none where the cluster has policies switched off."""
    if not spec.cluster.network_policies:
        return ()
    services = (policy for service in spec.services for policy in _service_policies(spec, service))
    return (_restrictions(spec), *services)


def _restrictions(spec: LeaseSpec) -> Object:
    own = {"namespaceSelector": {"matchLabels": {NAMESPACE: spec.namespace}}}
    return _policy(
        spec,
        "akash-deployment-restrictions",
        {
            "podSelector": {},
            "ingress": [{"from": [own]}, *_edges(spec)],
            "egress": [{"to": [own]}, _dns(), {"to": [_block("0.0.0.0/0", CLOSED_RANGES)]}],
            "policyTypes": ["Ingress", "Egress"],
        },
    )


def _edges(spec: LeaseSpec) -> list[Object]:
    """Where HTTP requests come from: the ingress controller always, the gateway's namespace in its mode."""
    nginx = {"matchLabels": {"app.kubernetes.io/name": "ingress-nginx"}}
    edges: list[Object] = [{"from": [{"namespaceSelector": nginx, "podSelector": dict(nginx)}]}]
    if spec.cluster.ingress_mode is IngressMode.GATEWAY_API and spec.cluster.gateway_namespace:
        edges.append({"from": [{"namespaceSelector": _named(spec.cluster.gateway_namespace)}]})
    return edges


def _dns() -> Object:
    dns_pods = {"namespaceSelector": _named("kube-system"), "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
    return {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}], "to": [dns_pods]}


def _service_policies(spec: LeaseSpec, service: ServiceSpec) -> Iterable[Object]:
    open_ports = [port for port in service.ports if port.global_ and not port.ingress]
    if open_ports:
        yield _service_policy(spec, service, f"akash-{service.name}-np", _ingress(_policy_ports(open_ports)))
    leased = [port for port in service.ports if port.ip_name]
    if leased:
        rule = _policy_ports(leased) | {"from": [_block("0.0.0.0/0")]}
        yield _service_policy(spec, service, f"akash-{service.name}-ip", _ingress(rule))
    if service.permissions_read and spec.cluster.api_server_endpoints:
        yield _service_policy(spec, service, f"akash-apiserver-{service.name}", _api_server(spec))


def _policy_ports(ports: Iterable[PortSpec]) -> Object:
    """Container ports, not external ones: a policy sees the packet at the pod."""
    return {"ports": [{"protocol": port.proto.upper(), "port": port.port} for port in ports]}


def _ingress(rule: Object) -> Object:
    return {"ingress": [rule], "policyTypes": ["Ingress"]}


def _api_server(spec: LeaseSpec) -> Object:
    """Egress to every backend of the API server; ports are the distinct backend ports."""
    addresses, ports = zip(*(_endpoint(text) for text in spec.cluster.api_server_endpoints), strict=True)
    rule = {
        "ports": [{"protocol": "TCP", "port": port} for port in dict.fromkeys(ports)],
        "to": [_block(address) for address in dict.fromkeys(addresses)],
    }
    return {"egress": [rule], "policyTypes": ["Egress"]}


def _endpoint(text: str) -> tuple[str, int]:
    """`192.0.2.1:6443` or `[2001:db8::1]:6443` as network and port."""
    host, _, port = text.rpartition(":")
    try:
        return str(ipaddress.ip_network(ipaddress.ip_address(host.strip("[]")))), int(port)
    except ValueError:
        raise BuildError("api-server-endpoints", text, '"address:port" with an IP address') from None


def _service_policy(spec: LeaseSpec, service: ServiceSpec, name: str, rules: Object) -> Object:
    return _policy(spec, name, {"podSelector": {"matchLabels": {MANIFEST_SERVICE: service.name}}} | rules)


def _policy(spec: LeaseSpec, name: str, rules: Object) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(name, spec.namespace, labels=namespace_labels(spec)),
        "spec": rules,
    }


def _block(cidr: str, closed: tuple[str, ...] = ()) -> Object:
    return {"ipBlock": {"cidr": cidr} | ({"except": list(closed)} if closed else {})}


def _named(namespace: str) -> Object:
    return {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
