"""What no cluster and no shared edge may be given is refused, whatever was checked before."""

from __future__ import annotations

import pytest

from components.errors import BuildError
from components.lease import lease_objects
from lease.spec import ClusterFacts, GpuPlacement, IngressMode, RegistryCredentials, VolumeKind, VolumeSpec
from tests.components.specs import LEASE, environment, everything, hostname, leased_ip, port, service, spec

OPEN = (port(8080, global_=True),)
GATEWAY = ClusterFacts(ingress_mode=IngressMode.GATEWAY_API)


def volume(**changes):
    fields = {"name": "data", "kind": VolumeKind.PERSISTENT, "size_bytes": 1, "storage_class": "beta2", "mount": "/d"}
    return VolumeSpec(**(fields | changes))


def kept(service_name="store", /, **changes):
    return service(service_name, volumes=(volume(**changes),))


def gpu(**changes):
    return service(gpu_units=1, gpu=GpuPlacement(**({"vendor": "nvidia", "model": "a100"} | changes)))


HOSTILE_SERVICES = {
    "a service named like a path": service("../web"),
    "a service name with a line break": service("web\n"),
    "a service name that starts with a digit": service("1web"),
    "a service name in upper case": service("Web"),
    "no service name": service(""),
    "a service name too long for a label": service("w" * 64),
    "a service name too long for its node port's Service": service("w" * 61, ports=OPEN),
    "a service name too long for the pods of a StatefulSet": kept("w" * 53),
    "no image": service(image=""),
    "an image with a blank": service(image="nginx latest"),
    "an image with a line break": service(image="nginx\n"),
    "an image with a control character": service(image="nginx\x1b[2J"),
    "an image with a no-break space": service(image="nginx\u00a0"),
    "an image with a turn of direction": service(image="nginx\u202egpj"),
    "a NUL in the command": service(command=("sh\0",)),
    "half a surrogate pair in args": service(args=("\ud800",)),
    "a variable without a name": service(environment=environment(("", "x"))),
    "a variable's name with an equals sign": service(environment=environment(("A=B", "x"))),
    "a variable's name with a line break": service(environment=environment(("A\nB", "x"))),
    "a variable's name that starts with a digit": service(environment=environment(("1A", "x"))),
    "a variable named like a folder": service(environment=environment(("..a", "x"))),
    "a NUL in a variable": service(environment=environment(("A", "x\0y"))),
    "fewer than no replicas": service(count=-1),
    "more replicas than 32 bits": service(count=2**31),
    "a runtime class that is no name": service(runtime_class="gvisor; rm"),
    "port 0": service(ports=(port(1).model_copy(update={"port": 0}),)),
    "a port beyond 16 bits": service(ports=(port(65536),)),
    "an external port beyond 16 bits": service(ports=(port(80, 65536),)),
    "an unknown protocol": service(ports=(port(80, proto="SCTP"),)),
    "a request above its limit": service(cpu_request_milli=11),
    "negative memory": service(memory_request_bytes=-1, memory_limit_bytes=-1),
    "more bytes than a quantity holds": service(ephemeral_limit_bytes=2**63),
    "a GPU without a card": service(gpu_units=1),
    "a GPU of an unknown vendor": gpu(vendor="intel"),
    "a GPU vendor that ends the label": gpu(vendor="nvidia/x"),
    "a GPU model with a blank": gpu(model="a100 80"),
    "a GPU memory that is no label part": gpu(memory_size="80Gi\n"),
    "a GPU interface that is no label part": gpu(interface="sxm,pcie"),
    "a GPU model too long for its label": gpu(model="m" * 30),
    "a storage class that is no label part": kept(storage_class="beta2/x"),
    "a storage class too long for its label": kept(storage_class="b" * 40),
    "a storage class in upper case": kept(storage_class="Beta2"),
    "a persistent volume of no size": kept(size_bytes=0),
    "a volume's name with a blank": kept(name="my data"),
    "a volume's name too long beside its service's": kept(name="d" * 60),
    "a relative mount path": kept(mount="data"),
    "a mount path with a colon": kept(mount="/a:/b"),
    "a mount path with a NUL": kept(mount="/a\0"),
    "two volumes of one name": service(volumes=(volume(), volume(mount="/e"))),
    "two volumes at one path": service(volumes=(volume(), volume(name="other"))),
}


@pytest.mark.parametrize("hostile", HOSTILE_SERVICES.values(), ids=HOSTILE_SERVICES.keys())
def test_a_service_that_fits_no_cluster_is_refused_before_anything_is_built(hostile):
    with pytest.raises(BuildError, match="allowed: "):
        lease_objects(spec(hostile))


HOSTILE_LEASES = {
    "a hostname that is an address": {"hostnames": (hostname("192.0.2.1"),)},
    "a hostname with a line break": {"hostnames": (hostname("a.example\n"),)},
    "a wildcard of a top-level domain": {"hostnames": (hostname("*.com"),)},
    "a wildcard inside a hostname": {"hostnames": (hostname("a.*.example.com"),)},
    "a wildcard that ends the line": {"hostnames": (hostname("*.example.com\n"),)},
    "a hostname with a label beyond 63 characters": {"hostnames": (hostname("a" * 64 + ".example.com"),)},
    "a hostname on port 0": {"hostnames": (hostname(external_port=0),)},
    "a hostname of a service that is no name": {"hostnames": (hostname(service="web;"),)},
    "an edge option beyond its maximum": {"hostnames": (hostname(max_body_size=104857601),)},
    "a buffer beyond its maximum": {"hostnames": (hostname(proxy_buffer_size=1048577),)},
    "a next case that ends the line": {"hostnames": (hostname(next_cases=("off;\nlua",)),)},
    "a next case off beside others": {"hostnames": (hostname(next_cases=("off", "error")),)},
    "a leased IP of a service with a long name": {"leased_ips": (leased_ip(service="w" * 60),)},
    "a leased IP on port 0": {"leased_ips": (leased_ip(external_port=0),)},
    "a leased IP of an unknown protocol": {"leased_ips": (leased_ip(proto="tcp\n"),)},
    "a leased IP that is a range": {"leased_ips": (leased_ip(address="192.0.2.0/24"),)},
    "a sharing key that ends the line": {"leased_ips": (leased_ip(sharing_key="k\nmetallb.io/x: y"),)},
    "an owner that is no label": {"lease": LEASE.__class__("a b", 1, 1, 1, LEASE.provider)},
    "a version that is no label": {"first_resource_version": "1\n2"},
    "an ingress class that is no name": {"cluster": ClusterFacts(ingress_class="a b")},
    "a pull secret that is no name": {"cluster": ClusterFacts(pull_secret="a/b")},
    "a buffer setting that ends the line": {
        "cluster": GATEWAY.model_copy(update={"proxy_buffer_size": "16k;"}),
        "hostnames": (hostname(),),
    },
}


@pytest.mark.parametrize("hostile", HOSTILE_LEASES.values(), ids=HOSTILE_LEASES.keys())
def test_a_lease_that_would_reach_the_shared_edge_or_a_label_unseen_is_refused(hostile):
    with pytest.raises(BuildError, match="allowed: "):
        lease_objects(spec(**hostile))


def test_a_refused_value_of_a_variable_is_never_told():
    with pytest.raises(BuildError) as told:
        lease_objects(spec(service(environment=environment(("A", "s3cret\0")))))
    assert "s3cret" not in str(told.value)
    assert "variable A" in str(told.value)


def test_hostile_credentials_stay_inside_their_json():
    """Everything of a registry is text of one JSON document in a Secret: nothing to refuse."""
    credentials = RegistryCredentials(host='"}}\n', email="", username="u\0", password='"')
    made = lease_objects(spec(service(credentials=credentials)))
    assert [item["kind"] for item in made if item["kind"] == "Secret"] == ["Secret"]


FITTING = {
    "the longest name with a node port": service("w" * 60, ports=OPEN),
    "the longest name of a StatefulSet": kept("w" * 52, name="d" * 10),
    "a service that is paused": service(count=0),
    "an ephemeral volume that nothing mounts may have any name": service(
        ephemeral_limit_bytes=1,
        ephemeral_request_bytes=1,
        volumes=(volume(name="My Data", kind=VolumeKind.EPHEMERAL, storage_class="", mount=""),),
    ),
    "every character a variable may hold": service(environment=environment(("-a.B_9", "\x01\n\u202e\U0001f600"))),
}


@pytest.mark.parametrize("fitting", FITTING.values(), ids=FITTING.keys())
def test_what_fits_at_the_edge_of_the_rules_is_built(fitting):
    assert lease_objects(spec(fitting))


def test_the_example_that_uses_every_builder_passes():
    assert len(lease_objects(everything())) > 15
