"""ClusterIP and NodePort Services (kubernetes-objects.md §2.7, T2–T7)."""

from __future__ import annotations

import pytest

from components.service import cluster_service, node_port_service, service_objects
from tests.components.specs import NAMESPACE, port, service, spec

MIXED = (port(1000, 1001, global_=True), port(2000, 2001, index=1))


def both(*ports):
    made = service("myservice", ports=ports)
    return cluster_service(spec(made), made), node_port_service(spec(made), made)


def test_a_service_without_exposes_gets_no_kubernetes_service():
    assert both() == (None, None)


@pytest.mark.parametrize(
    ("expose", "kinds"),
    [
        (port(8080), ["ClusterIP"]),
        (port(8080, 80, global_=True), ["ClusterIP"]),
        (port(8080, global_=True), ["NodePort"]),
        (port(80, global_=True, proto="UDP"), ["NodePort"]),
        (port(8080, 80, global_=True, ip_name="meow"), ["ClusterIP"]),
        (port(8080, global_=True, ip_name="meow"), ["NodePort"]),
    ],
    ids=["private", "http edge", "node port", "udp 80", "leased http", "leased"],
)
def test_each_kind_of_expose_makes_its_kind_of_service(expose, kinds):
    made = service(ports=(expose,))
    assert [item["spec"]["type"] for item in service_objects(spec(made), made)] == kinds


def test_only_global_exposes_that_are_not_http_are_node_ports():
    made = both(*MIXED)[1]
    assert made["metadata"]["name"] == "myservice-np"
    assert made["spec"]["type"] == "NodePort"
    assert made["spec"]["ports"] == [{"name": "0-1001", "protocol": "TCP", "port": 1001, "targetPort": 1000}]


def test_the_others_are_cluster_ports_and_keep_their_place_in_the_whole_list():
    made = both(*MIXED)[0]
    assert made["metadata"]["name"] == "myservice"
    assert made["spec"]["type"] == "ClusterIP"
    assert made["spec"]["ports"] == [{"name": "1-2001", "protocol": "TCP", "port": 2001, "targetPort": 2000}]


def test_the_selector_never_changes_with_the_manifest():
    assert both(*MIXED)[0]["spec"]["selector"] == {
        "akash.network": "true",
        "akash.network/namespace": NAMESPACE,
        "akash.network/manifest-service": "myservice",
    }


def test_tcp_and_udp_on_one_external_port_both_exist():
    made = both(port(53, global_=True), port(53, index=1, proto="UDP", global_=True))[1]
    assert [(item["name"], item["protocol"]) for item in made["spec"]["ports"]] == [("0-53", "TCP"), ("1-53", "UDP")]


def test_the_first_of_two_exposes_of_the_same_port_and_protocol_wins():
    made = both(port(1000, 80), port(2000, 80, index=1))[0]
    assert made["spec"]["ports"] == [{"name": "0-80", "protocol": "TCP", "port": 80, "targetPort": 1000}]
