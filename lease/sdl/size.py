"""The size of a document's manifest, known before the manifest is made.

Aliases, several `to` of one expose and several placements of one service repeat text that was written once, so that a
few kilobytes could require gigabytes. A document whose manifest no provider would read (`MAX_MANIFEST_BYTES`) is
refused first.
"""

from __future__ import annotations

from collections.abc import Iterable

from lease.manifest_decode import MAX_MANIFEST_BYTES
from lease.sdl.profiles import Compute
from lease.sdl.reader import Reader
from lease.sdl.sections import Document
from lease.sdl.services import RawExpose, RawService

__all__ = ["check_size"]

_SERVICE, _EXPOSE, _VOLUME, _TEXT = 200, 250, 40, 3
"""The least number of bytes of each part in the manifest, without its texts."""


def _texts(texts: Iterable[str] | None) -> int:
    return sum(_TEXT + len(text) for text in texts or ())


def _expose_bytes(expose: RawExpose) -> int:
    return max(1, len(expose.to)) * (_EXPOSE + _texts(expose.accept) + _texts(expose.http_options.next_cases))


def _service_bytes(service: RawService) -> int:
    mounts = service.params.storage if service.params else {}
    own = (service.image, *mounts, *(mount.mount for mount in mounts.values()))
    texts = _texts(own) + _texts(service.command) + _texts(service.args) + _texts(service.env)
    if service.params and not isinstance(service.params.permissions, bool):
        texts += _texts(service.params.permissions)
    if service.credentials:
        texts += _texts(service.credentials[1:])
    return _SERVICE + texts + sum(_expose_bytes(expose) for expose in service.expose)


def _compute_bytes(compute: Compute) -> int:
    volumes = compute.storage or ()
    attributes = compute.gpu_attributes + compute.cpu_attributes
    return len(volumes) * _VOLUME + _texts(volume.name for volume in volumes) + _texts(item.key for item in attributes)


def check_size(reader: Reader, document: Document) -> None:
    """Raise `SdlInvalid` when the manifest is too large for a provider."""
    services = {
        name: _service_bytes(document.services[name]) for name in document.deployment.keys() & document.services
    }
    computes = {name: _compute_bytes(compute) for name, compute in document.compute.items()}
    total = 0
    for name, placements in document.deployment.items():
        total += len(placements) * services.get(name, 0)
        total += sum(computes.get(deployed.profile, 0) for deployed in placements.values())
    if total > MAX_MANIFEST_BYTES:
        allowed = f"at most {MAX_MANIFEST_BYTES} bytes"
        reader.problem(reader.root, "the manifest would be too large", found=f"over {total} bytes", allowed=allowed)
        reader.check()
