"""The leases that the valid SDLs of the corpus become."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lease.build import SpecSettings, lease_spec, sharing_keys
from lease.errors import LeaseError
from lease.ids import LeaseId
from lease.manifest import Group
from lease.sdl import read_sdl
from lease.spec import ClusterFacts, GpuPlacement, IngressMode, LeaseSpec
from tests.components.specs import LEASE
from tests.data import SDL

__all__ = ["corpus_leases"]

_CARD = GpuPlacement(vendor="nvidia", model="a100")


def corpus_leases(mode: IngressMode = IngressMode.INGRESS) -> dict[str, LeaseSpec]:
    """One spec for each group of each SDL that is valid and that a provider can build, by file and group. Each is of a
    lease of its own.
    """
    made = ((name, _spec(replace(LEASE, dseq=dseq), group, mode)) for dseq, (name, group) in enumerate(_groups(), 1))
    return {f"{name} {spec.group}": spec for name, spec in made if spec is not None}


def _groups() -> Iterator[tuple[str, Group]]:
    for path in sorted(SDL.glob("*.yaml")):
        try:
            manifest = read_sdl(path.read_bytes(), file=path.name).manifest
        except LeaseError:
            continue
        for group in manifest:
            yield path.name, group


def _spec(lease: LeaseId, group: Group, mode: IngressMode) -> LeaseSpec | None:
    services = group.services or ()
    keys = sharing_keys(lease.owner, group)
    try:
        return lease_spec(
            lease=lease,
            group=group,
            resource_version="1",
            placements={each.resources.id: _CARD for each in services if each.resources.gpu_units},
            addresses={key: f"192.0.2.{number}" for number, key in enumerate(keys, 1)},
            cluster=ClusterFacts(ingress_mode=mode),
            settings=SpecSettings(static_hosts=True, ingress_domain="ingress.example.com"),
        )
    except LeaseError:
        return None
