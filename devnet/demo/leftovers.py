"""Proof that a closed lease left nothing: the API server, Pulumi's backend and the ledger are asked."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from typing import Any

from devnet.world import World
from lease.ids import LeaseId, namespace_name

__all__ = ["leftovers"]

_RECORDS = ("manifests.akash.network", "providerhosts.akash.network", "providerleasedips.akash.network", "secrets")
_POOLS = ("ipaddresspools.metallb.io", "l2advertisements.metallb.io")


async def leftovers(world: World, lease: LeaseId) -> tuple[str, ...]:
    """Everything of `lease` that is still there, () when nothing is."""
    cluster = await asyncio.to_thread(lambda: tuple(_in_cluster(world, lease)))
    backend = await asyncio.to_thread(lambda: tuple(_in_backend(world, lease)))
    return (*cluster, *backend, *await _in_ledger(world))


def _in_cluster(world: World, lease: LeaseId) -> Iterator[str]:
    namespace = namespace_name(lease)
    if _get(world, "namespaces", f"--field-selector=metadata.name={namespace}"):
        yield f"namespace {namespace}"
    for kind in _RECORDS:
        for item in _get(world, kind, f"--namespace={world.records}"):
            if namespace in item["metadata"]["name"] or _dseq(item) == str(lease.dseq):
                yield f"{kind} {item['metadata']['name']}"
    for kind in _POOLS:
        yield from (f"{kind} {item['metadata']['name']}" for item in _get(world, kind, "--namespace=metallb-system"))
    for volume in _get(world, "persistentvolumes"):
        if (volume["spec"].get("claimRef") or {}).get("namespace") == namespace:
            yield f"persistentvolume {volume['metadata']['name']}"


def _dseq(item: dict[str, Any]) -> str:
    return str((item["metadata"].get("labels") or {}).get("akash.network/lease.id.dseq", ""))


def _get(world: World, kind: str, *options: str) -> list[dict[str, Any]]:
    kubectl = [str(world.plane.toolbox.program("kubectl")), "--kubeconfig", str(world.plane.kubeconfig)]
    done = subprocess.run(
        [*kubectl, "get", kind, *options, "--output=json"], capture_output=True, text=True, check=True
    )
    items: list[dict[str, Any]] = json.loads(done.stdout)["items"]
    return items


def _in_backend(world: World, lease: LeaseId) -> Iterator[str]:
    """The file backend has one folder a lease; while there is one, Pulumi itself is asked what it holds."""
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
