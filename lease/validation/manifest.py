"""A manifest by itself (sdl-and-manifest.md §4.1-4.2; texts as recorded)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from lease.errors import ManifestErrorKind, ManifestRefused
from lease.go_quote import go_quote
from lease.hostnames import is_wildcard
from lease.kubernetes_names import is_manifest_service_name, is_subdomain, is_variable_name
from lease.manifest import Expose, Group, Manifest, Service
from lease.resources import Resources

__all__ = ["expose_sort_key", "manifest_problems", "validate_manifest"]


def expose_sort_key(expose: Expose) -> tuple[bytes, int, bytes, bool]:
    """The key that orders exposes by service, port, protocol, global first; text by its bytes (§3.3)."""
    return expose.service.encode(), expose.port, expose.proto.encode(), not expose.global_


def _invalid(problem: str, *, service: str = "", field: str = "", value: str = "") -> ManifestRefused:
    return ManifestRefused(ManifestErrorKind.INVALID, problem, service=service, field=field, value=value)


def _in_service(service: Service, problem: str, field: str, value: str = "") -> ManifestRefused:
    return _invalid(f"service {go_quote(service.name)}{problem}", service=service.name, field=field, value=value)


def _absent_resources(resources: Resources) -> str:
    """The first part that a unit lacks, in Go's order and words; "" when it is complete."""
    lacking = (
        (resources.id <= 0, "resources ID must be > 0"),
        ("cpu" in resources.absent, "CPU must not be nil"),
        ("gpu" in resources.absent, "GPU must not be nil"),
        ("memory" in resources.absent, "memory must not be nil"),
        (resources.storage is None, "storage must not be nil"),
        (resources.endpoints is None, "endpoints must not be nil"),
    )
    return next((text for missing, text in lacking if missing), "")


def _name_problems(service: Service) -> Iterator[ManifestRefused]:
    if not service.name:
        yield _invalid("service name is empty", field="name")
    elif not is_manifest_service_name(service.name):
        yield _in_service(service, " name is invalid", "name", service.name)
    if not service.image:
        yield _in_service(service, " has empty image name", "image")


def _env_problems(service: Service) -> Iterator[ManifestRefused]:
    for entry in service.env or ():
        name = entry.partition("=")[0]
        if not is_variable_name(name):
            yield _in_service(service, f" defines an env. var. with an invalid name {go_quote(name)}", "env", entry)


def _expose_problems(
    service: Service, expose: Expose, hosts: set[str], *, wildcards: bool
) -> Iterator[ManifestRefused]:
    if not 0 < expose.port <= 65535:
        yield _in_service(service, ": port value must be 0 < value <= 65535 ", "port", str(expose.port))
    if expose.proto not in ("TCP", "UDP"):
        yield _in_service(service, f": protocol {go_quote(expose.proto)} unknown", "proto", expose.proto)
    for host in expose.hosts or ():
        if not (is_subdomain(host) or (wildcards and is_wildcard(host))):
            yield _in_service(service, f": has invalid hostname {go_quote(host)}", "hosts", host)
        if host in hosts:
            yield _in_service(service, f": hostname {go_quote(host)} is duplicated, this is not allowed", "hosts", host)
        hosts.add(host)


def _sorted_exposes(exposes: Sequence[Expose]) -> bool:
    return all(expose_sort_key(left) <= expose_sort_key(right) for left, right in pairwise(exposes))


def _service_problems(service: Service, hosts: set[str], *, wildcards: bool) -> Iterator[ManifestRefused]:
    yield from _name_problems(service)
    if lacking := _absent_resources(service.resources):
        yield ManifestRefused(ManifestErrorKind.PLAIN, lacking, service=service.name, field="resources")
    yield from _env_problems(service)
    if len(service.expose or ()) > 1 and not _sorted_exposes(service.expose or ()):
        yield _in_service(service, ": expose is not sorted", "expose")
    for expose in service.expose or ():
        yield from _expose_problems(service, expose, hosts, wildcards=wildcards)


def _group_problems(group: Group, hosts: set[str], *, wildcards: bool) -> Iterator[ManifestRefused]:
    services = group.services or ()
    if not services:
        yield _invalid(f"group {go_quote(group.name)} contains no services")
    names = [service.name.encode() for service in services]
    if names != sorted(names):
        yield _invalid(f"group {go_quote(group.name)} services is not sorted")
    for service in services:
        yield from _service_problems(service, hosts, wildcards=wildcards)


def manifest_problems(manifest: Manifest, *, wildcards: bool = False) -> Iterator[ManifestRefused]:
    """Every problem, in the order in which Go would find it. `wildcards`: hosts may have the form `*.example.com`,
    which the Go provider and its clients refuse.
    """
    if not manifest:
        yield _invalid("manifest is empty")
        return
    hosts: set[str] = set()
    names: set[str] = set()
    for group in manifest:
        yield from _group_problems(group, hosts, wildcards=wildcards)
        if group.name in names:
            yield _invalid(f"duplicate group {go_quote(group.name)}")
        names.add(group.name)
    exposes = (expose for group in manifest for service in group.services or () for expose in service.expose or ())
    if not any(expose.global_ for expose in exposes):
        yield _invalid("zero global services", field="expose")


def validate_manifest(manifest: Manifest, *, wildcards: bool = False) -> None:
    """Raise the first problem: kind INVALID, or PLAIN for absent resources."""
    problem = next(manifest_problems(manifest, wildcards=wildcards), None)
    if problem is not None:
        raise problem
