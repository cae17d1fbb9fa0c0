"""What is refused in a new manifest and was taken before: an accepted one goes on being applied.

A stored manifest is checked by `check_for_provider` each time that its lease is built, and a check that is added there
would block leases that run. So the checks that were added after the first leases are here.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from lease.addresses import leased_ip_name, sharing_key
from lease.errors import ManifestErrorKind, ManifestRefused
from lease.manifest import Group, Service
from lease.markers import first_marker

__all__ = ["check_new_manifest"]

_NAME_LENGTH = 253
_CLOSED_FOLDERS = ("/dev", "/proc", "/sys")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  (a mount path of tenants' pods)


def check_new_manifest(group: Group, *, owner: str) -> None:
    """Raise kind REJECTED with the first value that no new manifest may have."""
    for service in group.services or ():
        for problem in _problems(service, owner):
            text = f'service "{service.name}": {problem}'
            raise ManifestRefused(ManifestErrorKind.REJECTED, text, service=service.name)


def _problems(service: Service, owner: str) -> Iterator[str]:
    yield from _count_problems(service)
    yield from _mount_problems(service)
    yield from _endpoint_problems(service, owner)
    yield from _marker_problems(service)


def _count_problems(service: Service) -> Iterator[str]:
    """A service without replicas uses up no rented unit, and there could be any number of them."""
    if service.count < 1:
        yield f"count is {service.count}, it must be at least 1"


def _mount_problems(service: Service) -> Iterator[str]:
    for mount in (service.params and service.params.storage) or ():
        path = mount.mount
        clean = posixpath.normpath(f"/{path.lstrip('/')}")
        if ".." in path.split("/"):
            yield f'mount path {path!r} cannot have ".." in it'
        elif clean == "/":
            yield f"mount path {path!r} is the root of the container's file system"
        elif not _below(clean, _SHARED_MEMORY) and any(_below(clean, folder) for folder in _CLOSED_FOLDERS):
            yield f"mount path {path!r} hides files of the kernel; below /dev only {_SHARED_MEMORY} can be mounted"


def _marker_problems(service: Service) -> Iterator[str]:
    """The problem with a text that the engine would read as something else. A variable's value may be one, since it is
    held in a Secret then; its name may not.
    """
    variables = [text.partition("=")[0] for text in service.env or ()]
    mounts = [mount.mount for mount in (service.params and service.params.storage) or ()]
    volumes = [text for volume in service.resources.storage or () for text in (volume.name, volume.storage_class)]
    hosts = [expose.hosts for expose in service.expose or ()]
    words = (service.command, service.args)
    if marker := first_marker([service.name, service.image, words, variables, mounts, volumes, hosts]):
        yield f'"{marker}" has a meaning of its own to Pulumi and can only be the value of a variable'


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _endpoint_problems(service: Service, owner: str) -> Iterator[str]:
    """The name of an IP endpoint is part of the names of its claims."""
    for expose in service.expose or ():
        if not (expose.global_ and expose.ip):
            continue
        name = leased_ip_name(sharing_key(owner, expose.ip), proto=expose.proto, external_port=expose.effective_port)
        if len(name) > _NAME_LENGTH:
            yield f"the name of IP endpoint {expose.ip[:40]!r}… is {len(name) - _NAME_LENGTH} characters too long"
