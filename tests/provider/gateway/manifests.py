"""A small manifest of tests and the deployment it is for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from lease.ids import LeaseId
from lease.manifest_decode import manifest_from_json
from provider.protocols.chain import Deployment, LeaseState
from tests.provider.gateway.accounts import Account
from tests.provider.gateway.recorded import deployed
from tests.provider.gateway.world import PROVIDER, World, rented

TENANT = Account.named("tenant")
DSEQ = 42


def service(name: str = "web", *, hosts: list[str] | None = None, **changes: Any) -> dict[str, Any]:
    resources = {
        "id": 1,
        "cpu": {"units": {"val": "500"}},
        "memory": {"size": {"val": "536870912"}},
        "storage": [{"name": "default", "size": {"val": "1073741824"}}],
        "gpu": {"units": {"val": "0"}},
        "endpoints": [{"sequence_number": 0}],
    }
    expose = {"port": 80, "externalPort": 80, "proto": "TCP", "service": "", "global": True, "hosts": hosts}
    base = {"name": name, "image": "nginx:1.27", "count": 1, "resources": resources, "expose": [expose]}
    return base | changes


def body(*groups: str, **changes: Any) -> bytes:
    """JSON of a manifest with one service a group."""
    return json.dumps([{"name": name, "services": [service(**changes)]} for name in groups or ("dc",)]).encode()


def deployment(data: bytes, dseq: int = DSEQ, owner: str = TENANT.address) -> Deployment:
    return deployed(owner, dseq, manifest_from_json(data))


def lease(dseq: int = DSEQ, gseq: int = 1, oseq: int = 1, owner: str = TENANT.address) -> LeaseId:
    return LeaseId(owner, dseq, gseq, oseq, PROVIDER)


def rent(
    world: World, data: bytes, *leases: LeaseId, state: LeaseState = LeaseState.ACTIVE, hash_: bytes = b""
) -> None:
    """Put a deployment for `data` on chain, leased by the provider."""
    world.chain.public_keys[TENANT.address] = TENANT.public
    found = deployment(data)
    rented(world.chain, replace(found, hash=hash_ or found.hash), *leases, state=state)
