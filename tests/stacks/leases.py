"""Leases to try the engine with: one like the demo's, each with a namespace of its own."""

from __future__ import annotations

import itertools
import os
import secrets

from lease.ids import LeaseId
from lease.spec import LeaseSpec, RegistryCredentials, VolumeKind, VolumeSpec
from tests.components.specs import environment, hostname, leased_ip, port, service, spec

OWNER = "akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx"
PROVIDER = "akash1v4nxw6rfdf4kcmtwdac8zunnw36hvamcjpn8js"
CANARY = "canary-of-the-environment"
PASSWORD = "canary-of-the-credentials"

_numbers = itertools.count(secrets.randbelow(2**40))


def lease_id() -> LeaseId:
    """Never twice, in no process: a namespace name is not used again."""
    return LeaseId(OWNER, next(_numbers) * 2**20 + os.getpid() % 2**20, 1, 1, PROVIDER)


def small(image: str = "nginx:1", *, lease: LeaseId | None = None, count: int = 1) -> LeaseSpec:
    """One service with a port and a secret: five objects."""
    web = service(image=image, count=count, environment=environment(("TOKEN", CANARY)))
    return spec(web, lease=lease or lease_id())


def _address(lease: LeaseId) -> str:
    """One a lease: of two pools with one address MetalLB takes neither, nor any later one.

    From the range for benchmarks (RFC 2544), the quarter that other tests leave alone; never dialled.
    """
    number, process = divmod(lease.dseq, 2**20)
    serial = number * 97 + process * 7919
    return f"198.19.{128 + serial // 254 % 128}.{1 + serial % 254}"


def demo(image: str = "nginx:1", *, lease: LeaseId | None = None) -> LeaseSpec:
    """Two services, a hostname, a persistent volume, pull credentials and a leased address: the demo's size."""
    lease = lease or lease_id()
    web = service(
        image=image,
        environment=environment(("TOKEN", CANARY), ("AKASH_OWNER", OWNER)),
        ports=(port(80, global_=True), port(8080, index=1, global_=True, ip_name="meow")),
        credentials=RegistryCredentials(host="registry.example", email="a@b.example", username="u", password=PASSWORD),
    )
    volume = VolumeSpec(name="data", kind=VolumeKind.PERSISTENT, size_bytes=2**30, storage_class="beta2", mount="/data")
    store = service("store", ports=(port(5432),), volumes=(volume,))
    key = f"{OWNER}-ip-{lease.dseq}"
    return spec(
        web,
        store,
        lease=lease,
        hostnames=(hostname(f"h{lease.dseq}.localhost"),),
        leased_ips=(leased_ip(port=8080, external_port=8080, sharing_key=key, address=_address(lease)),),
    )
