"""A storage in memory: claims are bound as the controllers do, released volumes go as their policy says."""

from __future__ import annotations

from typing import Any

from components.volumes import claim_templates
from lease.spec import LeaseSpec
from provider.protocols.cluster import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from tests.world.cluster import FakeCluster

__all__ = ["Storage"]


class Storage:
    """`stuck`: volumes that the storage cannot delete, with its words. `deleted`: whose data is gone."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self._made = 0
        self.stuck: dict[str, str] = {}
        self.deleted: list[str] = []

    def claim(self, spec: LeaseSpec) -> None:
        """A StatefulSet's controller makes the claims that are missing."""
        for service in spec.services:
            for template in claim_templates(service):
                name = f"{template['metadata']['name']}-{service.name}-0"
                if self._cluster.find(PERSISTENT_VOLUME_CLAIM, name, spec.namespace) is None:
                    self.put_claim(spec.namespace, name, template["spec"])

    def put_claim(self, namespace: str, name: str, spec: dict[str, Any]) -> None:
        meta = {"name": name, "namespace": namespace, "labels": {"akash.network": "true"}}
        self._cluster.put({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec})

    def settle(self) -> None:
        for volume in self._all(PERSISTENT_VOLUME):
            self._released(volume)
        for claim in self._all(PERSISTENT_VOLUME_CLAIM):
            if not claim["spec"].get("volumeName"):
                self._bind(claim)
        for volume in self._all(PERSISTENT_VOLUME):
            self._reclaimed(volume)

    def volumes(self) -> list[dict[str, Any]]:
        return self._all(PERSISTENT_VOLUME)

    def _all(self, kind: Any) -> list[dict[str, Any]]:
        objects = self._cluster.objects
        return [objects[key] for key in sorted(key for key in objects if key[1] == kind.kind)]

    def _released(self, volume: dict[str, Any]) -> None:
        reference = volume["spec"]["claimRef"]
        claim = self._cluster.find(PERSISTENT_VOLUME_CLAIM, reference["name"], reference["namespace"])
        if not reference.get("uid"):
            self._phase(volume, "Available")
        elif claim is None or claim["metadata"]["uid"] != reference["uid"]:
            self._phase(volume, "Released")

    def _bind(self, claim: dict[str, Any]) -> None:
        """To the volume that waits for it and is large enough, else to a new one."""
        meta, spec = claim["metadata"], claim["spec"]
        size = spec["resources"]["requests"]["storage"]
        mine = (meta["namespace"], meta["name"])
        waiting = [
            volume
            for volume in self.volumes()
            if (volume["spec"]["claimRef"]["namespace"], volume["spec"]["claimRef"]["name"]) == mine
            and not volume["spec"]["claimRef"].get("uid")
            and int(volume["spec"]["capacity"]["storage"]) >= int(size)
            and volume["spec"]["storageClassName"] == spec.get("storageClassName", "default")
        ]
        volume = waiting[0] if waiting else self._provisioned(size, spec.get("storageClassName", "default"))
        reference = {"namespace": mine[0], "name": mine[1], "uid": meta["uid"]}
        volume = self._cluster.put({**volume, "spec": {**volume["spec"], "claimRef": reference}})
        self._phase(volume, "Bound")
        self._cluster.put({**claim, "spec": {**spec, "volumeName": volume["metadata"]["name"]}})

    def _provisioned(self, size: str, storage_class: str) -> dict[str, Any]:
        self._made += 1
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"pv-{self._made}"},
            "spec": {
                "capacity": {"storage": size},
                "storageClassName": storage_class,
                "persistentVolumeReclaimPolicy": "Delete",
            },
        }

    def _reclaimed(self, volume: dict[str, Any]) -> None:
        name, spec = volume["metadata"]["name"], volume["spec"]
        if (volume.get("status") or {}).get("phase") not in ("Released", "Failed"):
            return
        if spec["persistentVolumeReclaimPolicy"] != "Delete":
            return
        if name in self.stuck:
            self._phase(volume, "Failed", self.stuck[name])
            return
        self.deleted.append(name)
        self._cluster.remove(("v1", "PersistentVolume", "", name))

    def _phase(self, volume: dict[str, Any], phase: str, message: str = "") -> None:
        status = {"phase": phase} | ({"message": message} if message else {})
        self._cluster.put({**volume, "status": status}, status=True)
