"""NetworkPolicies: what a lease may reach, and what may reach it (kubernetes-objects.md §2.2)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from components.checks import label_part, label_value, subdomain
from components.errors import BuildError
from components.labels import MANIFEST_SERVICE, NAMESPACE, Object, metadata, namespace_labels
from lease.spec import IngressMode, LeaseSpec, PortSpec, ServiceSpec

__all__ = ["CLOSED_RANGES", "MORE_CLOSED_RANGES", "isolation_objects"]

CLOSED_RANGES = ("10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12", "169.254.0.0/16", "100.64.0.0/10")
"""Private ranges, then link-local (a cloud's metadata service) and carrier-grade NAT: no tenant reaches them (Q14)."""

MORE_CLOSED_RANGES = (
    "0.0.0.0/8",
    "192.0.0.0/24",
    "198.18.0.0/15",
    "168.63.129.16/32",
    "224.0.0.0/4",
    "240.0.0.0/4",
)
"""Closed from form 2 on: this host, protocol assignments, benchmarks between networks, the metadata service of Azure,
multicast, reserved addresses with the broadcast address.
"""


def isolation_objects(spec: LeaseSpec) -> tuple[Object, ...]:
    """All policies of the lease, the general one first; empty where the settings switch policies off."""
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
            "egress": [{"to": [own]}, *_dns(spec), {"to": [_block("0.0.0.0/0", _closed(spec))]}],
            "policyTypes": ["Ingress", "Egress"],
        },
    )


def _edges(spec: LeaseSpec) -> list[Object]:
    """The sources of HTTP requests: Ingress-NGINX always, the gateway's namespace in its mode, and the edge that the
    settings name (Traefik, or a gateway whose pods run elsewhere).
    """
    cluster = spec.cluster
    nginx = {"matchLabels": {"app.kubernetes.io/name": "ingress-nginx"}}
    edges: list[Object] = [{"from": [{"namespaceSelector": nginx, "podSelector": dict(nginx)}]}]
    if cluster.ingress_mode is IngressMode.GATEWAY_API and cluster.gateway_namespace:
        edges.append({"from": [{"namespaceSelector": _named(cluster.gateway_namespace)}]})
    if cluster.edge_namespace:
        edges.append({"from": [_named_edge(cluster.edge_namespace, cluster.edge_labels)]})
    elif cluster.edge_labels:
        raise BuildError("setting edge labels", cluster.edge_labels, "none, unless the edge's namespace is set")
    return edges


def _named_edge(namespace: str, labels: Iterable[str]) -> Object:
    """The edge that the settings name. Labels narrow its namespace and never open another one."""
    peer: Object = {"namespaceSelector": _named(label_part("setting edge namespace", namespace))}
    pods = dict(_label(text) for text in labels)
    return peer | ({"podSelector": {"matchLabels": pods}} if pods else {})


def _label(text: str) -> tuple[str, str]:
    """`app.kubernetes.io/name=traefik` as key and value."""
    key, equals, value = text.partition("=")
    prefix, slash, name = key.rpartition("/")
    if not equals:
        raise BuildError("setting edge labels", text, "key=value")
    if slash:
        subdomain("setting edge labels", prefix)
    label_part("setting edge labels", name)
    return key, label_value("setting edge labels", value)


def _dns(spec: LeaseSpec) -> Iterable[Object]:
    """The cluster's DNS, and the cache on each node, whose link-local address is closed otherwise."""
    dns_pods = {"namespaceSelector": _named("kube-system"), "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
    yield _dns_rule([dns_pods])
    if spec.cluster.node_dns:
        yield _dns_rule([_block(_address(text)) for text in dict.fromkeys(spec.cluster.node_dns)])


def _dns_rule(peers: list[Object]) -> Object:
    return {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}], "to": peers}


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_network(ipaddress.ip_address(text)))
    except ValueError:
        raise BuildError("setting node dns", text, "an IP address") from None


def _closed(spec: LeaseSpec) -> tuple[str, ...]:
    """The closed networks. An exception must be inside 0.0.0.0/0 and not all of it; IPv6 has no rule and is closed as a
    whole.
    """
    more = []
    for text in (*spec.cluster.own_addresses, *spec.cluster.closed_ranges):
        try:
            network = ipaddress.IPv4Network(text)
        except ValueError:
            network = ipaddress.IPv4Network("0.0.0.0/0")
        if not network.prefixlen:
            raise BuildError("setting closed ranges", text, "an IPv4 network such as 203.0.113.0/24")
        more.append(str(network))
    always = (*CLOSED_RANGES, *(MORE_CLOSED_RANGES if spec.fenced else ()))
    return tuple(dict.fromkeys((*always, *more)))


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
    """Egress to every backend of the API server, on the distinct ports of the backends."""
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
