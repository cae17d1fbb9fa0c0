"""Leased addresses: pool, advertisement and LoadBalancer Services (architecture §5, kubernetes-objects.md §2.8)."""

from __future__ import annotations

import pytest

from components.errors import BuildError
from components.lease import lease_objects
from components.leased_ip import address_objects, leased_ip_service
from lease.ids import LeaseId
from tests.components.specs import KEY, LEASE, NAMESPACE, leased_ip, spec


def of_kind(made, kind):
    return [item for item in made if item["kind"] == kind]


def test_pool_and_advertisement_hold_exactly_the_one_address():
    pool, advertisement = address_objects(spec(), leased_ip())
    assert pool["spec"] == {"addresses": ["192.0.2.7/32"], "autoAssign": False}
    assert advertisement["spec"] == {"ipAddressPools": [pool["metadata"]["name"]]}
    assert pool["metadata"] == advertisement["metadata"]
    assert pool["metadata"]["namespace"] == "metallb-system"
    assert pool["metadata"]["annotations"] == {"akash.network/sharing-key": KEY}


def test_an_ipv6_address_is_one_address_too():
    assert address_objects(spec(), leased_ip(address="2001:db8::7"))[0]["spec"]["addresses"] == ["2001:db8::7/128"]


def test_two_leases_of_one_tenant_register_the_same_pool():
    other = spec(lease=LeaseId(LEASE.owner, 99, 2, 3, LEASE.provider), first_resource_version="7")
    assert address_objects(spec(), leased_ip()) == address_objects(other, leased_ip(service="db", port=1))


def test_names_and_labels_stay_within_63_characters_however_long_the_key():
    pool = address_objects(spec(), leased_ip(sharing_key=KEY + "x" * 200))[0]
    values = [pool["metadata"]["name"], *pool["metadata"]["labels"].values()]
    assert all(len(value) <= 63 for value in values)


def test_the_service_takes_its_address_from_its_own_pool():
    made = leased_ip_service(spec(), leased_ip())
    assert made["metadata"]["name"] == "web-ip-80-tcp"
    assert made["metadata"]["namespace"] == NAMESPACE
    assert made["metadata"]["annotations"] == {
        "metallb.universe.tf/allow-shared-ip": KEY,
        "metallb.io/address-pool": address_objects(spec(), leased_ip())[0]["metadata"]["name"],
    }
    assert made["metadata"]["labels"]["akash.network/service-target"] == "metal-lb"
    assert made["spec"] == {
        "type": "LoadBalancer",
        "ports": [{"name": "web-ip-80-tcp", "protocol": "TCP", "port": 80, "targetPort": 8080}],
        "selector": {"akash.network": "true", "akash.network/manifest-service": "web"},
    }


def test_tcp_and_udp_on_one_leased_port_are_two_services_on_one_pool():
    made = lease_objects(spec(leased_ips=(leased_ip(), leased_ip(proto="UDP"))))
    balancers = [
        item["metadata"]["name"] for item in of_kind(made, "Service") if item["spec"]["type"] == "LoadBalancer"
    ]
    assert balancers == ["web-ip-80-tcp", "web-ip-80-udp"]
    assert len(of_kind(made, "IPAddressPool")) == len(of_kind(made, "L2Advertisement")) == 1


@pytest.mark.parametrize("address", ["", "192.0.2.0/24", "example.com", "192.0.2.256", "192.0.2.1-192.0.2.9"])
def test_what_is_not_one_address_is_refused(address):
    with pytest.raises(BuildError, match="address of"):
        address_objects(spec(), leased_ip(address=address))


def test_one_sharing_key_with_two_addresses_is_refused():
    with pytest.raises(BuildError, match="one address for a sharing key"):
        lease_objects(spec(leased_ips=(leased_ip(), leased_ip(external_port=81, address="192.0.2.8"))))
