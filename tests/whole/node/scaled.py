"""Documents of the corpus as this node can serve them: small, with stand-in images, and open to every provider."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from devnet.node.registry import PASSWORD, USER
from lease.groups import GroupSpec, Requirements
from lease.manifest import Group, Service
from lease.manifest_json import manifest_version
from lease.resources import Price, Resources, Volume
from lease.sdl import Sdl, read_sdl
from tests.data import SDL

__all__ = ["STAND_IN_COMMAND", "expanded", "scaled_document"]

STAND_IN_COMMAND = ("/bin/standin", "serve")
"""What a service runs instead of its command, with the arguments of the document: it ignores those."""
_CPU_MILLI = 10
_MIB = 2**20
_COUNT = 2
_PRICE = Price("uact", Decimal(10_000))


def scaled_document(name: str, *, number: int) -> Sdl:
    """The document with small requests, one card instead of more, at most two replicas, the chain's own denom, no
    requirements, images without digest, credentials that the node's registry takes, and hostnames of its own
    (`number`): what the rest of the document says stays.
    """
    sdl = read_sdl((SDL / f"{name}.yaml").read_bytes(), file=name)
    manifest = tuple(_group(group, number) for group in sdl.manifest)
    services = {group.name: group.services or () for group in manifest}
    groups = tuple(_spec(group, services[group.name]) for group in sdl.groups)
    return replace(sdl, groups=groups, manifest=manifest, version=manifest_version(manifest))


def expanded(text: str, values: Mapping[str, str]) -> str:
    """An argument or a variable as the kubelet gives it to the container: `$(NAME)` is a variable that exists, `$$` is
    `$`, and everything else stays as it is.
    """
    return re.sub(r"\$(\$|\(([^)]*)\))", lambda found: _meaning(found, values), text)


def _meaning(found: re.Match[str], values: Mapping[str, str]) -> str:
    return "$" if found[1] == "$" else values.get(found[2], found[0])


def _spec(group: GroupSpec, services: Sequence[Service]) -> GroupSpec:
    """The order of these services, of which several may share a unit."""
    counts = Counter[int]()
    for service in services:
        counts[service.resources.id] += service.count
    units = tuple(
        replace(unit, resources=_small(unit.resources), count=counts[unit.resources.id], price=_PRICE)
        for unit in group.units
    )
    return replace(group, units=units, requirements=Requirements())


def _group(group: Group, number: int) -> Group:
    return replace(group, services=tuple(_service(service, number) for service in group.services or ()))


def _service(service: Service, number: int) -> Service:
    exposes = tuple(
        replace(item, hosts=tuple(f"d{number}.{host}" for host in item.hosts)) if item.hosts else item
        for item in service.expose or ()
    )
    login = service.credentials and replace(service.credentials, username=USER, password=PASSWORD)
    return replace(
        service,
        credentials=login,
        image=service.image.partition("@")[0],
        command=STAND_IN_COMMAND,
        count=min(service.count, _COUNT),
        resources=_small(service.resources),
        expose=exposes,
    )


def _small(resources: Resources) -> Resources:
    return replace(
        resources,
        cpu_milli=_CPU_MILLI,
        memory_bytes=32 * _MIB,
        gpu_units=min(resources.gpu_units, 1),
        storage=tuple(replace(volume, size_bytes=_size(volume)) for volume in resources.storage or ()),
    )


def _size(volume: Volume) -> int:
    if volume.storage_class == "ram":
        return 8 * _MIB
    return (16 if volume.persistent else 64) * _MIB
