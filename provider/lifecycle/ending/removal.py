"""The removal of everything of a lease that is proven to have ended (docs/architecture.md §2 rule 2, §5 order of an
end).

Every step may be repeated. The Manifest goes last: a restart finds an unfinished end by it.
"""

from __future__ import annotations

from lease.ids import LeaseId, namespace_name
from provider.kube.labels import MANAGED
from provider.lifecycle.parts import Parts
from provider.lifecycle.state import Outcome, Phase
from provider.lifecycle.stored_lease import NamespaceState, read_namespace
from provider.protocols.cluster import MANIFEST, NAMESPACE, PERSISTENT_VOLUME_CLAIM, SECRET
from provider.records.applied import applied_name
from provider.volumes.marks import KeptVolume
from provider.volumes.quarantine import Quarantine
from provider.volumes.texts import kept_text

__all__ = ["end", "only_volumes"]

_AGAIN_S = 1.0
_KEPT_S = 600.0


async def end(parts: Parts, lease: LeaseId, quarantine: Quarantine) -> Outcome:
    """Do the steps of the end that can be done now. The caller has the proof.

    Volumes to be kept are marked before the stack goes, because the namespace goes with it; a volume that cannot be
    marked keeps both.
    """
    await parts.claims.release_all(lease)
    await quarantine.keep(lease)
    if error := await _destroy_stack(parts, lease):
        return Outcome(Phase.CLOSING, error, retry=True)
    if waiting := await _remove_namespace(parts, lease):
        return Outcome(Phase.CLOSING, waiting, again_in=_AGAIN_S)
    parts.release(lease.order)
    await parts.claims.remove_unused_pools()
    await parts.cluster.delete(SECRET, applied_name(lease), namespace=parts.config.records)
    await parts.cluster.delete(MANIFEST, namespace_name(lease), namespace=parts.config.records)
    return _ended(await quarantine.left(lease), quarantine)


async def only_volumes(parts: Parts, lease: LeaseId, quarantine: Quarantine, *, kept_before: bool) -> Outcome | None:
    """The outcome for a lease of which only kept volumes are left, or were at the last check; None when more is
    left.
    """
    volumes = await quarantine.of(lease)
    if not volumes and not kept_before:
        return None
    name, records = namespace_name(lease), parts.config.records
    state, _ = await read_namespace(parts.cluster, name)
    if state is not NamespaceState.ABSENT or await parts.cluster.get(MANIFEST, name, namespace=records) is not None:
        return None
    return None if name in await parts.engine.stacks() else _ended(volumes, quarantine)


def _ended(volumes: tuple[KeptVolume, ...], quarantine: Quarantine) -> Outcome:
    """The quarantine takes care of the volumes, and each change of one that a watch reports asks for another check."""
    if not volumes:
        return Outcome(Phase.CLOSED)
    return Outcome(Phase.QUARANTINED, kept_text(volumes, problem=quarantine.problem), again_in=_KEPT_S)


async def _destroy_stack(parts: Parts, lease: LeaseId) -> str:
    """Destroy the stack. Returns the error, empty when there is no stack any more."""
    name = namespace_name(lease)
    if name not in await parts.engine.stacks():
        return ""
    result = parts.report(lease, await parts.engine.destroy(name))
    return "" if result.ok else result.error or "the engine gave no reason"


async def _remove_namespace(parts: Parts, lease: LeaseId) -> str:
    """Delete the namespace. Returns what is waited for, empty when the API server answers 404.

    A stack whose state was lost destroys nothing, so the namespace is deleted by name. Claims of volumes are made by
    controllers and are in no stack; without them a namespace takes 15 s to go instead of 5 (toolchain.md §2).
    """
    name, cluster = namespace_name(lease), parts.cluster
    state, held_by = await read_namespace(cluster, name)
    if state is NamespaceState.ABSENT:
        return ""
    if state is NamespaceState.ACTIVE:
        await cluster.delete(NAMESPACE, name)
    for claim in await cluster.list(PERSISTENT_VOLUME_CLAIM, namespace=name, labels=MANAGED):
        if not claim["metadata"].get("deletionTimestamp"):
            await cluster.delete(PERSISTENT_VOLUME_CLAIM, claim["metadata"]["name"], namespace=name)
    return f"namespace {name} is terminating{': ' + held_by if held_by else ''}"
