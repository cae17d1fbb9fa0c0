"""Network: the policies that isolate a lease, and what its Services name."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from policies.pods import at, items, listed, pod_of
from policies.rules import BOTH, Domain, Manifest, ObjectProblem, Objects, RuleScope, fence, of_each

__all__ = ["RULES"]

_CLOSED = tuple(
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10")
)
_MORE_CLOSED = (
    *_CLOSED,
    *(ipaddress.ip_network(text) for text in ("0.0.0.0/8", "192.0.0.0/24", "198.18.0.0/15")),
    *(ipaddress.ip_network(text) for text in ("168.63.129.16/32", "224.0.0.0/4", "240.0.0.0/4")),
)
"""Closed from form 2 on: this host, protocol assignments, benchmarks, Azure's metadata service, multicast, reserved."""
_SERVICE_TYPES = (None, "ClusterIP", "NodePort", "LoadBalancer")
_TARGET = "akash.network/manifest-service"
_NAMESPACE = "akash.network/namespace"


def _isolated(objects: Objects) -> Iterator[ObjectProblem]:
    """Each namespace has a policy that selects every pod and both directions. `lease` may say that the operator has
    switched policies off.
    """
    if objects.lease is not None and not objects.lease.network_policies:
        return
    closed = {at(one, "metadata").get("namespace") for one in objects.of_kinds("NetworkPolicy") if _closes_all(one)}
    for space in objects.of_kinds("Namespace"):
        name = at(space, "metadata").get("name")
        if name in objects.lease_namespaces and name not in closed:
            yield ObjectProblem(space, "no policy closes both directions of all its pods")


def _closes_all(policy: Manifest) -> bool:
    spec = at(policy, "spec")
    every = "podSelector" in spec and spec["podSelector"] == {}
    return every and {"Ingress", "Egress"} <= set(map(str, listed(spec.get("policyTypes"))))


def _own_isolated(objects: Objects) -> Iterator[ObjectProblem]:
    """Of the provider's own namespaces: those with pods are closed to all that no policy names."""
    closed = {
        at(one, "metadata").get("namespace")
        for one in objects.of_kinds("NetworkPolicy")
        if at(one, "spec").get("podSelector") == {} and not at(one, "spec").get("ingress")
    }
    for manifest in objects:
        where = at(manifest, "metadata").get("namespace")
        if pod_of(manifest) and where not in closed:
            yield ObjectProblem(manifest, f"no policy closes namespace {where}")


def _open_policies(manifest: Manifest) -> Iterator[str]:
    spec = at(manifest, "spec")
    for rule in items(spec, "egress"):
        if not rule.get("to"):
            yield "an egress rule names no peer, which allows every one"
        for peer in items(rule, "to"):
            yield from _peer(peer, rule)
    for rule in items(spec, "ingress"):
        if not rule.get("from") and not rule.get("ports"):
            yield "an ingress rule names neither peer nor port, which allows everything"
        for peer in items(rule, "from"):
            yield from _selectors(peer)
            if "ipBlock" in peer and not rule.get("ports"):
                yield f"an ingress rule opens every port to {at(peer, 'ipBlock').get('cidr')}"


def _peer(peer: Mapping[str, Any], rule: Mapping[str, Any]) -> Iterator[str]:
    yield from _selectors(peer)
    if "ipBlock" not in peer:
        return
    read = _block(peer)
    if read is None:
        yield "an egress rule has a block that cannot be read"
        return
    network, _ = read
    if network.num_addresses == 1 and rule.get("ports"):
        return
    if opened := _CLOSED if network.version == 6 else _left_open(read, _CLOSED):
        yield f"an egress rule opens {network} with {opened[0] if network.version == 4 else 'all of IPv6'} in it"


_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


_Block = tuple[_Network, tuple[_Network, ...]]


def _block(peer: Mapping[str, Any]) -> _Block | None:
    """The network of a peer and its exceptions; None when they cannot be read."""
    block = at(peer, "ipBlock")
    return _networks(str(block.get("cidr")), tuple(str(text) for text in listed(block.get("except") or [])))


@lru_cache(maxsize=1024)
def _networks(cidr: str, closed: tuple[str, ...]) -> _Block | None:
    """The policies of all leases have the same few blocks, and reading one takes longer than every check of it."""
    try:
        return ipaddress.ip_network(cidr), tuple(map(ipaddress.ip_network, closed))
    except ValueError:
        return None


@lru_cache(maxsize=1024)
def _left_open(block: _Block, ranges: tuple[_Network, ...]) -> tuple[_Network, ...]:
    """Those of `ranges` that the block opens."""
    return tuple(each for each in ranges if each.overlaps(block[0]) and not _covered(each, block[1]))


def _covered(network: _Network, closed: tuple[_Network, ...]) -> bool:
    return any(one.version == network.version and network.subnet_of(one) for one in closed)  # type: ignore[arg-type]


def _reserved(manifest: Manifest) -> Iterator[str]:
    """From form 2 on: what no host on the internet has."""
    for rule in items(at(manifest, "spec"), "egress"):
        for peer in items(rule, "to"):
            read = _block(peer) if "ipBlock" in peer else None
            if read is None or (read[0].num_addresses == 1 and rule.get("ports")):
                continue
            if opened := _left_open(read, _MORE_CLOSED):
                yield f"an egress rule opens {', '.join(map(str, opened))}"


def _selectors(peer: Mapping[str, Any]) -> Iterator[str]:
    if not peer:
        yield "a peer without a selector is everybody"
    if "namespaceSelector" in peer and not at(peer, "namespaceSelector", "matchLabels"):
        yield "a rule opens every namespace"
    if at(peer, "namespaceSelector", "matchLabels").get("akash.network") == "true":
        yield "a rule opens the namespaces of all leases"
    others = at(peer, "namespaceSelector", "matchLabels").get("kubernetes.io/metadata.name") == "kube-system"
    if others and not at(peer, "podSelector", "matchLabels"):
        yield "a rule opens all of kube-system"


def _foreign_peers(objects: Objects) -> Iterator[ObjectProblem]:
    """Selectors by `akash.network/namespace` name the lease's own namespace."""
    own = objects.lease_namespaces
    for policy in objects.of_kinds("NetworkPolicy") if own else ():
        spec = at(policy, "spec")
        rules = [*items(spec, "ingress"), *items(spec, "egress")]
        for peer in (each for rule in rules for name in ("from", "to") for each in items(rule, name)):
            space = at(peer, "namespaceSelector", "matchLabels").get(_NAMESPACE)
            if space is not None and space not in own:
                yield ObjectProblem(policy, f"a rule opens the lease in {space}")


def _services(manifest: Manifest) -> Iterator[str]:
    spec = at(manifest, "spec")
    if spec.get("type") == "ExternalName" or spec.get("externalName"):
        yield "it is another name of a foreign host"
    elif spec.get("type") not in _SERVICE_TYPES:
        yield f"its type is {spec.get('type')}"
    if spec.get("externalIPs"):
        yield "it takes addresses by externalIPs"
    if not spec.get("selector"):
        yield "it has no selector, so that its endpoints can be anybody's"


def _taken(manifest: Manifest) -> Iterator[str]:
    spec = at(manifest, "spec")
    for field in ("clusterIP", "clusterIPs", "loadBalancerIP", "loadBalancerClass", "healthCheckNodePort"):
        if spec.get(field) and spec.get(field) not in ("None", ["None"]):
            yield f"it takes {field} {spec[field]}"
    for port in items(spec, "ports"):
        if port.get("nodePort"):
            yield f"it takes port {port['nodePort']} of every node"


def _own_pods(objects: Objects) -> Iterator[ObjectProblem]:
    for service in objects.of_kinds("Service") if objects.lease_namespaces else ():
        selector = at(service, "spec", "selector")
        space = selector.get(_NAMESPACE)
        if selector and _TARGET not in selector:
            yield ObjectProblem(service, f"its selector has no {_TARGET}")
        if space is not None and space not in objects.lease_namespaces:
            yield ObjectProblem(service, f"its selector names the lease in {space}")


RULES = (
    fence(
        "isolated",
        _isolated,
        reason="Without a policy the pods of a tenant reach every other tenant, the nodes and the cluster.",
        remedy="Make the policy that selects all pods and both directions.",
        scope=RuleScope.STACK,
    ),
    fence(
        "no-open-policy",
        of_each(_open_policies, "NetworkPolicy"),
        reason="Policies add up: one that allows everything ends the isolation of its pods.",
        remedy="Name peers, and close the private, link-local and carrier-grade networks.",
    ),
    fence(
        "reserved-networks",
        of_each(_reserved, "NetworkPolicy"),
        reason="A cloud's metadata services, multicast and reserved addresses are no hosts of the internet.",
        remedy="Except these networks in the egress rule.",
        form=2,
    ),
    fence(
        "no-foreign-lease",
        _foreign_peers,
        reason="A policy that names another lease opens the two to each other.",
        remedy="Name the lease's own namespace.",
        scope=RuleScope.STACK,
    ),
    fence(
        "own-endpoints",
        of_each(_services, "Service"),
        reason="A Service that names foreign hosts or addresses makes the edge reach them.",
        remedy="Use a selector of the lease's own pods.",
    ),
    fence(
        "own-pods",
        _own_pods,
        reason="A Service answers for the pods that its selector names.",
        remedy=f"Select the lease's own pods by {_TARGET}.",
        scope=RuleScope.STACK,
    ),
    fence(
        "no-taken-address",
        of_each(_taken, "Service"),
        reason="An address or a node port that a Service chooses can be another's: the DNS server's, another tenant's.",
        remedy="Let the cluster choose, or lease an address.",
        domains=BOTH,
    ),
    fence(
        "own-namespaces-closed",
        _own_isolated,
        reason="Tenants' pods must not reach the provider's own processes but through their Services' ports.",
        remedy="Make a policy that selects all pods of the namespace and allows nothing, beside those that allow.",
        scope=RuleScope.STACK,
        domains=(Domain.CLUSTER,),
    ),
)
