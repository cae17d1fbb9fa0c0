"""The next version of a lease with another manifest, read, claimed and built as the provider does it, without
writing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lease.ids import LeaseId
from lease.manifest import Group, Manifest
from lease.manifest_decode import manifest_from_json
from lease.sdl import read_sdl
from lease.spec import FORM, LeaseSpec
from lease.validation import check_for_provider, validate_manifest
from provider.claims.hostnames import hostname_rules
from provider.errors import ArgumentError, ProviderError
from provider.lifecycle.config import LifecycleConfig
from provider.lifecycle.lease_claims import LeaseClaims
from provider.lifecycle.serving.convergence import form_of
from provider.lifecycle.serving.upgrade import carried
from provider.lifecycle.spec_maker import SpecInputs, SpecMaker
from provider.lifecycle.stored_lease import read_stored_lease
from provider.protocols import Cluster
from provider.protocols.cluster import Kind
from provider.records.applied import Applied
from provider.records.manifests import ManifestRecord
from provider.settings import Settings

__all__ = ["NEXT_VERSION", "NoDiff", "Versions", "next_version", "parse_lease", "read_manifest_text"]

NEXT_VERSION = "next"
"""A stand-in for the resourceVersion that the Manifest object will have: services that change get it as their label."""

_ACCOUNT = "akash1[02-9ac-hj-np-z]{38,58}"
_LEASE = re.compile(f"({_ACCOUNT})/([0-9]{{1,20}})/([0-9]{{1,10}})/([0-9]{{1,10}})/({_ACCOUNT})")


class NoDiff(ProviderError):
    """There is nothing to compare. The text says why, and what to do instead."""


@dataclass(frozen=True, slots=True)
class Versions:
    """`running`: the last version that was applied in full. `note`: further information for the operator, or empty."""

    running: LeaseSpec
    wanted: LeaseSpec
    note: str = ""


class _Unwritten:
    """A cluster that is read as it is and ignores writes: claims are chosen, not made."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.get = cluster.get
        self.list = cluster.list
        self.watch = cluster.watch

    async def apply(self, obj: Mapping[str, Any], *, status: bool = False, dry_run: bool = False) -> dict[str, Any]:
        return dict(obj)

    async def take_fields(self, kind: Kind, name: str, *, label: str, namespace: str | None = None) -> bool:
        return False

    async def patch(
        self, kind: Kind, name: str, changes: Mapping[str, Any], *, namespace: str | None = None
    ) -> dict[str, Any]:
        return dict(changes)

    async def delete(
        self, kind: Kind, name: str, *, namespace: str | None = None, resource_version: str | None = None
    ) -> bool:
        return True


def parse_lease(text: str) -> LeaseId:
    """The lease in OWNER/DSEQ/GSEQ/OSEQ/PROVIDER, the form in logs and records. Raises `ArgumentError`."""
    match = _LEASE.fullmatch(text)
    dseq, gseq, oseq = (int(part) for part in match.groups()[1:4]) if match else (0, 0, 0)
    if match is None or not (0 < dseq < 2**64 and 0 < gseq < 2**32 and 0 < oseq < 2**32):
        raise ArgumentError(
            f"--lease {text[:200]!r} is not OWNER/DSEQ/GSEQ/OSEQ/PROVIDER, such as akash1…/1234/1/1/akash1…"
        )
    return LeaseId(match[1], dseq, gseq, oseq, match[5])


def read_manifest_text(text: bytes, *, file: str) -> Manifest:
    """The manifest of an SDL, or of a manifest as JSON (a list). Raises `SdlInvalid` or `ManifestRefused`."""
    if text.lstrip()[:1] != b"[":
        return read_sdl(text, file=file).manifest
    manifest = manifest_from_json(text)
    validate_manifest(manifest, wildcards=True)
    return manifest


async def next_version(
    manifest: Manifest, lease: LeaseId, *, settings: Settings, cluster: Cluster, specs: SpecMaker
) -> Versions:
    """The lease as it runs, and as it would run once the provider had accepted `manifest`.

    `specs` is the provider's own. Raises `NoDiff`, `ClusterError`, `BadRecordError`, `ManifestRefused`, `SpecRefused`,
    `HostnameRefusedError` or `AddressesExhaustedError`.
    """
    seen = await read_stored_lease(cluster, lease, records=settings.manifest_namespace)
    if seen.manifest is None:
        where = f"namespace {settings.manifest_namespace} of {getattr(cluster, 'address', 'the cluster')}"
        raise NoDiff(f"lease {lease} is not known in {where}: check the lease, or KUBECONFIG and AP_K8S_MANIFEST_NS")
    if seen.applied.spec is None:
        raise NoDiff(f"no version of lease {lease} was ever applied in full; `lessor render` shows what would be made")
    group = _group(manifest, seen.manifest.group.name)
    check_for_provider(group, require_hosts=not settings.ingress_static_hosts)
    record = ManifestRecord(lease, group, seen.manifest.placements, NEXT_VERSION)
    if record.content_hash() == seen.manifest.content_hash():
        record = seen.manifest
    unchanged = record.has_hash(seen.applied.manifest_hash)
    if unchanged and seen.applied.spec.found and not seen.applied.anew:
        return Versions(seen.applied.spec, seen.applied.spec, _rented_differently(seen.manifest.group, group))
    claimed = await _claimed(record, seen.applied, settings=settings, cluster=cluster, specs=specs)
    again = unchanged and not seen.applied.anew
    wanted = await carried(cluster, claimed, applied=seen.applied.spec, again=again)
    return Versions(seen.applied.spec, wanted, _rented_differently(seen.manifest.group, group))


def _group(manifest: Manifest, name: str) -> Group:
    for group in manifest:
        if group.name == name:
            return group
    names = ", ".join(group.name for group in manifest) or "none"
    raise NoDiff(f"the lease is of placement {name!r}; the file has: {names}")


async def _claimed(
    record: ManifestRecord, applied: Applied, *, settings: Settings, cluster: Cluster, specs: SpecMaker
) -> LeaseSpec:
    """The spec with the hostnames and addresses that the lease would get, chosen as the lease loop chooses them."""
    unchanged = record.has_hash(applied.manifest_hash)
    config = LifecycleConfig(
        provider=record.lease.provider,
        records=settings.manifest_namespace,
        metallb_namespace=settings.metallb_namespace,
        hostnames=hostname_rules(settings),
        ip_ranges=settings.ip_ranges,
        ip_pools=settings.ip_pools,
    )
    claimed = await LeaseClaims(_Unwritten(cluster), config).take(
        SpecInputs(
            record,
            applied.spec,
            applied.withheld,
            form=form_of(applied, unchanged=unchanged, found=FORM),
            moved=applied.moved,
        ),
        specs,
    )
    return claimed.spec


def _rented_differently(before: Group, after: Group) -> str:
    """A note when the manifest uses other resources: the gateway refuses it, since the group on chain never changes."""
    old, new = _rented(before), _rented(after)
    changed = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    if not changed:
        return ""
    units = ", ".join(str(resource) for resource in changed)
    return f"the rented resources differ (resource id {units}): the gateway refuses it, as the group on chain is fixed"


def _rented(group: Group) -> dict[int, tuple[object, int]]:
    """Resources of one replica and replicas in all, by resource id. The gateway checks endpoints."""
    rented: dict[int, tuple[object, int]] = {}
    for service in group.services or ():
        resources = service.resources
        amounts = (
            resources.cpu_milli,
            resources.memory_bytes,
            resources.gpu_units,
            resources.gpu_attributes,
            resources.storage,
        )
        rented[resources.id] = (amounts, rented.get(resources.id, (None, 0))[1] + service.count)
    return rented
