"""What a closed lease left in the cluster, in Pulumi's backend and in the provider's ledger."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Collection, Iterator
from typing import Any

from devnet.kube_api import KubeApi
from devnet.world import World
from lease.ids import LeaseId, namespace_name

__all__ = ["leftovers"]

_AKASH = "apis/akash.network/v2beta2/namespaces"
_RECORDS = ("manifests", "providerhosts", "providerleasedips")
_POOLS = "apis/metallb.io/v1beta1/namespaces/metallb-system"


async def leftovers(world: World, *leases: LeaseId) -> tuple[str, ...]:
    """Objects, stacks and reservations of `leases` that still exist, as text; () when there are none.

    Reads each list of objects once for all leases.
    """
    cluster = await asyncio.to_thread(lambda: tuple(_in_cluster(world, leases)))
    backend = await asyncio.to_thread(lambda: tuple(left for lease in leases for left in _in_backend(world, lease)))
    return (*cluster, *backend, *await _in_ledger(world))


def _in_cluster(world: World, leases: Collection[LeaseId]) -> Iterator[str]:
    api = KubeApi(world.plane.kubeconfig)
    namespaces, dseqs = {namespace_name(lease) for lease in leases}, {str(lease.dseq) for lease in leases}
    for item in (*api.items("api/v1/namespaces"), *api.items("api/v1/persistentvolumes")):
        claim = (item.get("spec") or {}).get("claimRef") or {}
        if item["metadata"]["name"] in namespaces or claim.get("namespace") in namespaces:
            yield _label(item)
    for path in (
        *(f"{_AKASH}/{world.records}/{each}" for each in _RECORDS),
        f"api/v1/namespaces/{world.records}/secrets",
    ):
        for item in api.items(path):
            if any(name in item["metadata"]["name"] for name in namespaces) or _dseq(item) in dseqs:
                yield _label(item)
    if not world.terms.real:
        for kind in ("ipaddresspools", "l2advertisements"):
            yield from map(_label, api.items(f"{_POOLS}/{kind}"))


def _label(item: dict[str, Any]) -> str:
    return f"{item['kind']} {item['metadata']['name']}"


def _dseq(item: dict[str, Any]) -> str:
    return str((item["metadata"].get("labels") or {}).get("akash.network/lease.id.dseq", ""))


def _in_backend(world: World, lease: LeaseId) -> Iterator[str]:
    """The lease's folder in the file backend, if it exists, with the stacks that Pulumi lists in it."""
    folder = world.data / "provider" / "engine" / "stacks" / namespace_name(lease)
    if not folder.exists():
        return
    env = {**world.plane.env(), "PULUMI_BACKEND_URL": f"file://{folder}?metadata=skip"}
    pulumi = str(world.plane.toolbox.program("pulumi"))
    done = subprocess.run(
        [pulumi, "stack", "ls", "--all", "--json"], capture_output=True, text=True, env=env, cwd=folder, check=False
    )
    yield f"stack folder {folder} ({done.stdout.strip() or done.stderr.strip()})"


async def _in_ledger(world: World) -> tuple[str, ...]:
    gateway = await world.tenant.gateway(world.provider)
    answer = await gateway.request("GET", "/status", token="")
    inventory = json.loads(answer.body)["cluster"]["inventory"]
    return tuple(
        f"reservation ({state}): {held}" for state in ("active", "pending") for held in inventory.get(state, ())
    )
