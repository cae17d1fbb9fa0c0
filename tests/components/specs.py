"""Hand-made specs for tests of builders: one small lease, and ways to vary it."""

from __future__ import annotations

from typing import Any

from lease.ids import LeaseId
from lease.spec import (
    FORM,
    ClusterFacts,
    EnvironmentVariable,
    HostnameSpec,
    LeasedIpSpec,
    LeaseSpec,
    PortSpec,
    RegistryCredentials,
    ServiceSpec,
    VolumeKind,
    VolumeSpec,
)

LEASE = LeaseId(
    "akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx", 12345678, 1, 1, "akash1v4nxw6rfdf4kcmtwdac8zunnw36hvamcjpn8js"
)
NAMESPACE = "rpmnevhmtjv66teu8a44fejr3qqqgnmbpac3l12ij66o2"
KEY = f"{LEASE.owner}-ip-meow"
"""The lease and the sharing key of kubernetes-objects.md §1.1."""

AKASH_ENVIRONMENT = (
    ("AKASH_GROUP_SEQUENCE", "1"),
    ("AKASH_DEPLOYMENT_SEQUENCE", "12345678"),
    ("AKASH_ORDER_SEQUENCE", "1"),
    ("AKASH_OWNER", LEASE.owner),
    ("AKASH_PROVIDER", LEASE.provider),
    ("AKASH_CLUSTER_PUBLIC_HOSTNAME", "app.localhost"),
)


def environment(*pairs: tuple[str, str]) -> tuple[EnvironmentVariable, ...]:
    return tuple(EnvironmentVariable(name=name, value=value) for name, value in pairs)


def service(name: str = "web", **changes: Any) -> ServiceSpec:
    """The service of the golden example, with `changes`."""
    fields: dict[str, Any] = {
        "name": name,
        "image": "quay.io/ovrclk/demo-app",
        "environment": environment(*AKASH_ENVIRONMENT),
        "count": 1,
        "resource_version": "42",
        "resource_id": 1,
        "cpu_request_milli": 10,
        "cpu_limit_milli": 10,
        "memory_request_bytes": 134217728,
        "memory_limit_bytes": 134217728,
        "ephemeral_request_bytes": 536870912,
        "ephemeral_limit_bytes": 536870912,
        "volumes": (VolumeSpec(name="default", kind=VolumeKind.EPHEMERAL, size_bytes=536870912),),
        "ports": (port(80, global_=True),),
    }
    return ServiceSpec(**(fields | changes))


def port(number: int, external: int = 0, **changes: Any) -> PortSpec:
    """One expose; the HTTP edge serves it if it is global TCP on external port 80."""
    outside = external or number
    fields: dict[str, Any] = {"index": 0, "proto": "TCP", "global_": False} | changes
    ingress = fields["global_"] and fields["proto"] == "TCP" and outside == 80
    return PortSpec(**({"port": number, "external_port": outside, "ingress": ingress} | fields))


def hostname(name: str = "test.localhost", **changes: Any) -> HostnameSpec:
    fields: dict[str, Any] = {
        "hostname": name,
        "service": "web",
        "external_port": 80,
        "max_body_size": 1048576,
        "read_timeout": 60000,
        "send_timeout": 60000,
        "next_tries": 3,
        "next_timeout": 0,
        "next_cases": ("error", "timeout"),
    }
    return HostnameSpec(**(fields | changes))


def leased_ip(**changes: Any) -> LeasedIpSpec:
    fields: dict[str, Any] = {
        "service": "web",
        "port": 8080,
        "external_port": 80,
        "proto": "TCP",
        "sharing_key": KEY,
        "address": "192.0.2.7",
    }
    return LeasedIpSpec(**(fields | changes))


def spec(*services: ServiceSpec, **changes: Any) -> LeaseSpec:
    """The golden example's lease around `services` (default: its one service)."""
    fields: dict[str, Any] = {
        "lease": LEASE,
        "group": "akash",
        "first_resource_version": "42",
        "services": services or (service(),),
        "cluster": ClusterFacts(public_hostname="app.localhost"),
    }
    return LeaseSpec(**(fields | changes))


def everything() -> LeaseSpec:
    """A lease that uses every builder once."""
    web = service(
        environment=environment(("TOKEN", "s3cret"), ("EMPTY", ""), *AKASH_ENVIRONMENT),
        ports=(port(80, global_=True), port(53, index=1, proto="UDP", global_=True, ip_name="meow")),
        credentials=RegistryCredentials(
            host="registry.example", email="a@b.example", username="u", password="pass-word"
        ),
    )
    store = service(
        "store",
        resource_version="57",
        permissions_read=("logs",),
        ports=(port(5432),),
        volumes=(
            VolumeSpec(name="data", kind=VolumeKind.PERSISTENT, size_bytes=2**30, storage_class="beta2", mount="/data"),
        ),
    )
    return spec(
        web,
        store,
        hostnames=(hostname(),),
        leased_ips=(leased_ip(port=53, external_port=53, proto="UDP"), leased_ip()),
        cluster=ClusterFacts(public_hostname="app.localhost", api_server_endpoints=("192.0.2.1:6443",)),
    )


def fenced(form: int = FORM) -> LeaseSpec:
    """`everything` in a form of objects, with a limit for every disk."""
    lease = everything()
    store = lease.services[1].model_copy(update={"ephemeral_limit_bytes": 2**29})
    return lease.model_copy(update={"form": form, "services": (lease.services[0], store)})
