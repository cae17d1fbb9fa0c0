"""A manifest against a provider's settings: what must be refused before it can reach a node or the shared HTTP edge.

A manifest is a tenant's JSON, so that no check of the SDL parser can be relied on. The Go provider accepts these values
and fails later, or writes them into the edge's configuration. Kind REJECTED (422) is Lessor's own, except for a missing
hostname.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from lease.errors import ManifestErrorKind, ManifestRefused
from lease.gpus import parse_gpu_request
from lease.kubernetes_names import LABEL_LENGTH, is_label, is_label_name, is_subdomain
from lease.manifest import Expose, Group, HttpOptions, Service
from lease.resources import Resources, Volume
from lease.validation.names import hostname_problems, image_problems, name_problems, shared_name_problem

__all__ = ["HTTP_MAXIMA", "NEXT_CASES", "check_for_provider", "group_hostnames", "http_option_problems"]

NEXT_CASES = ("error", "timeout", "500", "502", "503", "504", "403", "404", "429", "off")
"""The values of `next_cases`; `off` must be the only one (sdl-and-manifest.md §1.5)."""

HTTP_MAXIMA = {
    "max_body_size": (104857600, "body size cannot be greater than 104857600 bytes"),
    "read_timeout": (60000, "read timeout cannot be greater than 60000 ms"),
    "send_timeout": (60000, "send timeout cannot be greater than 60000 ms"),
    "proxy_buffer_size": (1048576, "proxy buffer size cannot be greater than 1048576 bytes"),
}

_MOST_REPLICAS = 2**31 - 1
"""Kubernetes counts replicas with 32 bits and a sign."""
_MOST = 2**63 - 1
"""Kubernetes keeps amounts in 64 bits with a sign."""
_NOT_APPLIED = re.compile("[\0\x7f-\x9f\ufffe\uffff]")
"""Characters that an apply, which is read as YAML, refuses or folds in plain text."""


def http_option_problems(options: HttpOptions) -> Iterator[str]:
    """Problems with the numbers and cases of an expose's HTTP options."""
    for name, (maximum, text) in HTTP_MAXIMA.items():
        if not 0 <= getattr(options, name) <= maximum:
            yield f"http option not allowed: {text}"
    for case in options.next_cases:
        if case not in NEXT_CASES:
            yield f'http option not allowed: next case "{case}" is unknown; known are {", ".join(NEXT_CASES)}'
        elif case == "off" and len(options.next_cases) > 1:
            yield 'http option not allowed: next case "off" must stand alone'


def _label_problem(what: str, part: str, label: str) -> Iterator[str]:
    if not is_label_name(part):
        yield f'{what} "{part}" cannot be part of a node label'
    elif len(label) > LABEL_LENGTH:
        yield f'{what} "{part}" makes a node label of more than {LABEL_LENGTH} characters'


def _volume_problems(volume: Volume) -> Iterator[str]:
    storage_class = volume.storage_class
    if volume.size_bytes < 0:
        yield f'storage "{volume.name}" has a negative size'
    if storage_class is not None:
        yield from _label_problem("storage class", storage_class, f"capabilities.storage.class.{storage_class}")
    elif volume.persistent:
        yield f'persistent storage "{volume.name}" names no class'
    if volume.persistent and storage_class and not is_subdomain(storage_class):
        yield f'storage class "{storage_class}" cannot be the name of a class: lower-case letters, digits, - and .'
    if volume.persistent and volume.size_bytes == 0:
        yield f'persistent storage "{volume.name}" has no size'
    if volume.persistent and storage_class == "ram":
        yield f'storage "{volume.name}" of class ram cannot be persistent'


def _gpu_problems(resources: Resources) -> Iterator[str]:
    if resources.gpu_units and not resources.gpu_attributes:
        yield "a GPU is asked for, but no vendor"
    for item in resources.gpu_attributes:
        request = parse_gpu_request(item.key)
        if request is None:
            form = "vendor/<nvidia or amd>/model/<model>[/ram/<size>][/interface/<pcie or sxm>]"
            yield f'GPU attribute "{item.key}" is not {form}'
            continue
        label = f"capabilities.gpu.vendor.{request.vendor}.model.{request.model}"
        yield from _label_problem("GPU vendor", request.vendor, label)
        if request.model != "*":
            yield from _label_problem("GPU model", request.model, label)
        for name, part in (("ram", request.memory_size), ("interface", request.interface)):
            if part:
                yield from _label_problem(f"GPU {name}", part, f"{label}.{name}.{part}")


def _mount_problems(service: Service) -> Iterator[str]:
    volumes = {volume.name: volume for volume in service.resources.storage or ()}
    taken: set[str] = set()
    for mount in (service.params and service.params.storage) or ():
        if mount.name not in volumes:
            yield f'mount "{mount.name}" names no storage of the service'
        if not mount.mount.startswith("/") or ":" in mount.mount or _NOT_APPLIED.search(mount.mount):
            yield f"mount path {mount.mount!r} must be absolute and without a colon and control characters"
        for used in (mount.mount, f"volume {mount.name}"):
            if used in taken:
                yield f'mount "{used}" is used twice'
            taken.add(used)
    mounted = {mount.name for mount in (service.params and service.params.storage) or ()}
    for volume in volumes.values():
        in_pod = volume.persistent or volume.storage_class == "ram" or volume.name in mounted
        if in_pod and not is_label(f"{service.name}-{volume.name}"):
            yield f'storage name "{volume.name}" cannot be part of a volume name'


def _expose_problems(expose: Expose) -> Iterator[str]:
    if not 0 < expose.effective_port <= 65535:
        yield f"external port {expose.effective_port} must be 0 < value <= 65535"
    yield from http_option_problems(expose.http_options)


def _text_problems(service: Service) -> Iterator[str]:
    """Problems with texts that an apply cannot hold. Values of variables can be held in a Secret instead, words of a
    command cannot.
    """
    words = tuple(chain(service.command or (), service.args or ()))
    if any("\0" in text for text in (*words, *(service.env or ()))):
        yield "command, args and env cannot hold a NUL character"
    if any(_NOT_APPLIED.search(word) for word in words):
        yield "command and args cannot hold DEL, U+0080 to U+009F, U+FFFE and U+FFFF"


def _amount_problems(service: Service) -> Iterator[str]:
    resources = service.resources
    volumes = sum(volume.size_bytes for volume in resources.storage or ())
    amounts = (resources.cpu_milli, resources.memory_bytes + _in_memory(service), resources.gpu_units, volumes)
    if min(*amounts, service.count) < 0:
        yield "resources cannot be negative"
    if max(amounts) > _MOST:
        yield f"resources cannot be above {_MOST}"
    if service.count > _MOST_REPLICAS:
        yield f"count cannot be above {_MOST_REPLICAS}"


def _in_memory(service: Service) -> int:
    """Bytes of the RAM volumes, which the memory limit includes."""
    volumes = service.resources.storage or ()
    return sum(volume.size_bytes for volume in volumes if volume.storage_class == "ram" and not volume.persistent)


def _service_problems(service: Service) -> Iterator[str]:
    resources = service.resources
    yield from name_problems(service)
    yield from _amount_problems(service)
    volumes = resources.storage or ()
    if len({volume.name for volume in volumes}) != len(volumes):
        yield "two storages have one name"
    for volume in volumes:
        yield from _volume_problems(volume)
    yield from _gpu_problems(resources)
    yield from _mount_problems(service)
    yield from image_problems(service.image)
    yield from _text_problems(service)
    yield from hostname_problems(service)
    for expose in service.expose or ():
        yield from _expose_problems(expose)


def _host_problems(service: Service) -> Iterator[str]:
    for expose in service.expose or ():
        if expose.is_ingress and not expose.hosts:
            yield f" exposed on {expose.effective_port}:{expose.proto} must have a hostname"


def check_for_provider(group: Group, *, require_hosts: bool) -> None:
    """Raise kind REJECTED with the first value that this provider cannot run or must keep away from its edge.

    `require_hosts` (no static hosts): every HTTP expose needs a hostname of its own (sdl-and-manifest.md §5.4).
    """
    names: set[str] = set()
    for service in group.services or ():
        problems = (f": {text}" for text in _service_problems(service))
        hosts = _host_problems(service) if require_hosts else iter(())
        twice = [": two services have one name"] if service.name in names else []
        for problem in chain(hosts, twice, problems):
            text = f'service "{service.name}"{problem}'
            raise ManifestRefused(ManifestErrorKind.REJECTED, text, service=service.name)
        names.add(service.name)
    if shared := shared_name_problem(group.services or ()):
        text = f'two Kubernetes objects would have the name "{shared}"; rename a service or change a port'
        raise ManifestRefused(ManifestErrorKind.REJECTED, text)


def group_hostnames(group: Group) -> tuple[str, ...]:
    """Every hostname that a group lists, lower case, in order, without repetition: the names that its owner must be
    able to reserve.
    """
    hosts = (
        host.lower()
        for service in group.services or ()
        for expose in service.expose or ()
        for host in expose.hosts or ()
    )
    return tuple(dict.fromkeys(hosts))
