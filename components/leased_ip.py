"""A leased address: pool, announcement and the LoadBalancer Services on it (kubernetes-objects.md §2.8).

One pool and one L2Advertisement hold exactly one address. Every lease of a tenant that shares the address registers the
same two objects, so that they hold nothing of a single lease.
"""

from __future__ import annotations

import ipaddress

from components.errors import BuildError
from components.labels import (
    AKASH,
    ALLOW_SHARED_IP,
    LEASE_OWNER,
    MANIFEST_SERVICE,
    SERVICE_TARGET,
    SHARING_KEY,
    SHARING_KEY_HASH,
    Object,
    lease_labels,
    metadata,
)
from lease.addresses import pool_name, sharing_key_hash
from lease.spec import LeasedIpSpec, LeaseSpec

__all__ = ["address_objects", "leased_ip_service"]


def address_objects(spec: LeaseSpec, leased: LeasedIpSpec) -> tuple[Object, ...]:
    """IPAddressPool and L2Advertisement of one sharing key; identical in every lease of the owner that uses the key.
    Empty for an address in somebody else's pool: MetalLB refuses a second pool that holds the address.
    """
    network = _network(leased)
    if leased.pool:
        return ()
    pool = {"addresses": [network], "autoAssign": False}
    advertisement = {"ipAddressPools": [pool_name(leased.sharing_key)]}
    return (
        _metallb(spec, leased, "IPAddressPool") | {"spec": pool},
        _metallb(spec, leased, "L2Advertisement") | {"spec": advertisement},
    )


def leased_ip_service(spec: LeaseSpec, leased: LeasedIpSpec) -> Object:
    """The LoadBalancer Service of one expose. Its selector is the Go provider's, without the namespace. The node ports
    of the cluster are few, and MetalLB needs none.
    """
    name = f"{leased.service}-ip-{leased.external_port}-{leased.proto}".lower()
    port = {"name": name, "protocol": leased.proto.upper(), "port": leased.external_port, "targetPort": leased.port}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(
            name,
            spec.namespace,
            labels={AKASH: "true", SERVICE_TARGET: "metal-lb"} | lease_labels(spec.lease),
            annotations={ALLOW_SHARED_IP: leased.sharing_key, **_from_pool(leased)},
        ),
        "spec": {
            "type": "LoadBalancer",
            **({"allocateLoadBalancerNodePorts": False} if spec.fenced else {}),
            "ports": [port],
            "selector": {AKASH: "true", MANIFEST_SERVICE: leased.service},
        },
    }


def _from_pool(leased: LeasedIpSpec) -> dict[str, str]:
    """The annotations that name the pool, and in somebody else's pool the address."""
    if not leased.pool:
        return {"metallb.io/address-pool": pool_name(leased.sharing_key)}
    return {"metallb.io/address-pool": leased.pool, "metallb.io/loadBalancerIPs": leased.address}


def _network(leased: LeasedIpSpec) -> str:
    try:
        return str(ipaddress.ip_network(ipaddress.ip_address(leased.address)))
    except ValueError:
        place = f"address of {leased.sharing_key!r}"
        raise BuildError(place, leased.address, "one IP address, chosen before the stack runs") from None


def _metallb(spec: LeaseSpec, leased: LeasedIpSpec, kind: str) -> Object:
    name = pool_name(leased.sharing_key)
    labels = {SHARING_KEY_HASH: sharing_key_hash(leased.sharing_key), LEASE_OWNER: spec.lease.owner}
    return {
        "apiVersion": "metallb.io/v1beta1",
        "kind": kind,
        "metadata": metadata(
            name, spec.cluster.metallb_namespace, labels=labels, annotations={SHARING_KEY: leased.sharing_key}
        ),
    }
