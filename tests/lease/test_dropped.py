"""Exposes that lose their port to another one of the same manifest."""

from __future__ import annotations

import pytest

from components.lease import lease_objects
from lease.build import SpecSettings, lease_spec
from lease.dropped import dropped_exposes
from lease.ids import LeaseId
from lease.manifest import Expose, Group, Service
from lease.resources import Resources, Volume
from lease.spec import ClusterFacts

LEASE = LeaseId("akash1owner", 42, 1, 1, "akash1prov")


def group(**services: tuple[Expose, ...]) -> Group:
    resources = Resources(1, 1000, 2**30, (Volume("default", 2**30),))
    return Group("dc", tuple(Service(name, "nginx", resources, 1, expose=found) for name, found in services.items()))


INGRESS, INNER = Expose(80, global_=True, hosts=("a.com",)), Expose(8080, 80)


@pytest.mark.parametrize(
    ("services", "dropped"),
    [
        (
            {"web": (INGRESS, INNER)},
            ["service web: port 8080 is not served as 80/TCP: an earlier expose has that port"],
        ),
        ({"web": (INGRESS, Expose(8080, 80, global_=True, ip="meow"))}, []),
        (
            {"web": (Expose(8080, 80, global_=True, ip="meow"), INGRESS)},
            ["service web: port 80 is not served as 80/TCP: an earlier expose has that port"],
        ),
        ({"web": (INGRESS, Expose(80, service="db"), Expose(80, service="cache"))}, []),
        ({"web": (INGRESS,), "db": (INNER,)}, []),
        ({"web": (Expose(53), Expose(5353, 53, proto="UDP"))}, []),
        ({"web": (Expose(9000, 8443), Expose(8443, global_=True))}, []),
        (
            {"web": (Expose(9000, 22, global_=True), Expose(22, global_=True))},
            ["service web: port 22 is not served as 22/TCP: an earlier expose has that port"],
        ),
        (
            {"web": (Expose(22, global_=True, ip="meow"),), "db": (Expose(22, global_=True, ip="meow"),)},
            ["service db: port 22 is not served as 22/TCP: an earlier expose has that port"],
        ),
        ({"web": (Expose(22, global_=True, ip="meow"),), "db": (Expose(22, global_=True, ip="purr"),)}, []),
    ],
)
def test_an_expose_that_loses_its_port_is_named(services: dict[str, tuple[Expose, ...]], dropped: list[str]) -> None:
    assert list(dropped_exposes(group(**services))) == dropped


def test_what_is_named_is_what_the_objects_lack() -> None:
    spec = lease_spec(
        lease=LEASE,
        group=group(web=(INGRESS, INNER, Expose(9000, 22, global_=True), Expose(22, global_=True))),
        resource_version="1",
        placements={},
        addresses={},
        cluster=ClusterFacts(),
        settings=SpecSettings(),
    )
    ports = [port for obj in lease_objects(spec) if obj["kind"] == "Service" for port in obj["spec"]["ports"]]
    assert sorted(port["targetPort"] for port in ports) == [80, 9000]
