"""What must be true when a lease has converged: all of it, once, as wanted, and nothing beside it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from lightkube import ApiError, Client
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.apps_v1 import Deployment, StatefulSet
from lightkube.resources.core_v1 import Namespace, Secret, Service
from lightkube.resources.networking_v1 import Ingress, NetworkPolicy

from components.lease import lease_objects
from lease.spec import LeaseSpec
from stacks.common.processes import survivors
from stacks.engine import EngineConfig
from tests.laws.killmatrix.slot import Slot

__all__ = ["asked", "forget_pool", "gone", "left_in_cluster", "left_of_run", "wrong_in_state", "wrong_with"]

_OBJECTS: tuple[Any, ...] = (Secret, Service, Deployment, StatefulSet, NetworkPolicy, Ingress)
_POOLS = (
    create_namespaced_resource("metallb.io", "v1beta1", "IPAddressPool", "ipaddresspools"),
    create_namespaced_resource("metallb.io", "v1beta1", "L2Advertisement", "l2advertisements"),
)
_METALLB = "metallb-system"
_THREAD = ThreadPoolExecutor(1, "checks")
"""One for all: the client's decoders are made on first use, and two threads that make one have crashed the process."""

T = TypeVar("T")
P = ParamSpec("P")


async def asked(question: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The answer of a function that blocks."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, partial(question, *args, **kwargs))


def wrong_with(client: Client, spec: LeaseSpec, pool: str) -> Iterator[str]:
    """Objects that lack, are too many, or have another image than wanted."""
    wanted = {(item["kind"], item["metadata"]["name"]) for item in lease_objects(spec)} - {
        ("Namespace", spec.namespace)
    }
    found = {*_list(client, _OBJECTS, spec.namespace)}
    found |= {item for item in _list(client, _POOLS, _METALLB) if item[1] == pool}
    yield from (f"{kind} {name} is missing" for kind, name in sorted(wanted - found))
    yield from (f"{kind} {name} should not be there" for kind, name in sorted(found - wanted))
    for service in spec.services:
        for image in _images(client, spec.namespace, service.name):
            if image != service.image:
                yield f"{service.name} runs {image}"


def wrong_in_state(config: EngineConfig, spec: LeaseSpec) -> Iterator[str]:
    """The stack's state holds every object once, and nothing that is pending or to be deleted."""
    latest = json.loads(config.state_file(spec.namespace).read_bytes())["checkpoint"]["latest"]
    resources = latest["resources"]
    yield from (f"{urn} twice in the state" for urn, n in Counter(item["urn"] for item in resources).items() if n > 1)
    yield from (f"{item['urn']} is to be deleted" for item in resources if item.get("delete"))
    if latest.get("pending_operations"):
        yield "pending operations in the state"
    held = sum(item["type"].startswith("kubernetes:") for item in resources)
    if held != len(lease_objects(spec)):
        yield f"the state holds {held} objects of {len(lease_objects(spec))}"


def left_of_run(slot: Slot, namespace: str) -> Iterator[str]:
    """What an operation leaves only when nobody tidied up after it."""
    folder = slot.config.folder(namespace)
    for pattern in (".pulumi/locks/**/*.json", "begun.json", ".pulumi/**/*.doubted", "**/.*.new"):
        yield from (f"file {file.relative_to(folder)}" for file in folder.glob(pattern))
    if slot.config.scratch(namespace).exists():
        yield "temporary folder"
    yield from (f"temporary file {file.name}" for file in slot.temporary.iterdir())
    yield from (f"process {pid}" for pid in survivors(slot.config.data, namespace))


def left_in_cluster(client: Client, namespace: str) -> Iterator[str]:
    """Objects of the lease anywhere, found by label, and by name where the namespace itself is still there."""
    if not gone(client, namespace):
        yield f"namespace {namespace}"
    for kind in _OBJECTS:
        for item in client.list(kind, namespace="*", labels={_LABEL: namespace}):
            yield f"{kind.__name__} {item.metadata.name} in {item.metadata.namespace}"


_LABEL = "akash.network/namespace"


def gone(client: Client, namespace: str) -> bool:
    """Whether the API server answers 404."""
    try:
        client.get(Namespace, namespace)
    except ApiError as error:
        return error.status.code == 404
    return False


def forget_pool(client: Client, pool: str) -> None:
    """Stacks only forget pools; the provider's lease loop deletes them when no claim is left."""
    for kind in _POOLS:
        try:
            client.delete(kind, pool, namespace=_METALLB)
        except ApiError as error:
            if error.status.code != 404:
                raise


def _list(client: Client, kinds: Iterable[Any], namespace: str) -> Iterator[tuple[str, str]]:
    for kind in kinds:
        for item in client.list(kind, namespace=namespace):
            yield kind.__name__, item.metadata.name


def _images(client: Client, namespace: str, name: str) -> Iterator[str]:
    kinds: tuple[Any, ...] = (Deployment, StatefulSet)
    for kind in kinds:
        for item in client.list(kind, namespace=namespace, fields={"metadata.name": name}):
            yield item.spec.template.spec.containers[0].image
