"""The `LeaseSpec` of a recorded lease: same manifest, settings, reservation and Manifest version."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from lease.build import SpecSettings, lease_spec, sharing_keys
from lease.ids import LeaseId
from lease.manifest import Group
from lease.manifest_decode import manifest_from_json
from lease.spec import FORM, ClusterFacts, GpuPlacement, IngressMode, LeaseSpec

__all__ = ["recorded_cluster", "recorded_settings", "recorded_spec", "recorded_update"]


def recorded_spec(recording: dict[str, Any], *, form: int = FORM) -> LeaseSpec:
    """The spec that makes the objects of `NAME.json`."""
    return _spec(recording, recording, group_name=recording["group"], form=form)


def recorded_update(recording: dict[str, Any]) -> tuple[LeaseSpec, LeaseSpec]:
    """The specs before and after the change of `NAME.update.json`."""
    name = recording["before"]["manifest"][0]["name"]
    before = _spec(recording, recording["before"], group_name=name)
    return before, _spec(recording, recording["after"], group_name=name, previous=before)


def _spec(
    recording: dict[str, Any],
    taken: dict[str, Any],
    *,
    group_name: str,
    previous: LeaseSpec | None = None,
    form: int = FORM,
) -> LeaseSpec:
    manifest = manifest_from_json(json.dumps(taken["manifest"]))
    group = next(item for item in manifest if item.name == group_name)
    fields = recording["lease"]
    return lease_spec(
        lease=LeaseId(fields["owner"], int(fields["dseq"]), fields["gseq"], fields["oseq"], fields["provider"]),
        group=group,
        resource_version=taken["manifest_resource_version"],
        placements=_placements(recording, group),
        addresses={key: f"192.0.2.{n}" for n, key in enumerate(sharing_keys(fields["owner"], group), 1)},
        cluster=recorded_cluster(recording["settings"]),
        settings=recorded_settings(recording["settings"]),
        previous=previous,
        form=form,
    )


def recorded_cluster(settings: dict[str, Any]) -> ClusterFacts:
    return ClusterFacts(
        ingress_mode=IngressMode(settings["ingress_mode"]),
        gateway_name=settings.get("gateway_name", "akash-gateway"),
        gateway_namespace=settings.get("gateway_namespace", "akash-gateway"),
        proxy_buffer_size=settings.get("proxy_buffer_size", "16k"),
        public_hostname=settings["public_hostname"],
        network_policies=settings["network_policies"],
        api_server_endpoints=tuple(settings["api_server_endpoints"]),
        pull_secret=settings["docker_image_pull_secrets_name"],
    )


def recorded_settings(settings: dict[str, Any]) -> SpecSettings:
    """The runtime class is the flag's default, which was in force for all recordings (their README)."""
    overcommit = settings["overcommit_pct"]
    return SpecSettings(
        static_hosts=settings["static_hosts"],
        ingress_domain=settings["ingress_domain"],
        overcommit_cpu_percent=overcommit["cpu"],
        overcommit_memory_percent=overcommit["memory"],
        overcommit_storage_percent=overcommit["storage"],
        runtime_class="gvisor",
    )


def _placements(recording: dict[str, Any], group: Group) -> dict[int, GpuPlacement | None]:
    """The card that was reserved: vendor and model as stored, memory and interface as the bid's offer promised."""
    reservation = recording.get("reservation") or {}
    params = reservation.get("scheduler_params") or {}
    offers = {
        item["resources"]["id"]: item["resources"]["gpu"] for item in reservation.get("bid_resources_offer") or []
    }
    result: dict[int, GpuPlacement | None] = {}
    for service in group.services or ():
        if chosen := params.get(service.name):
            gpu = chosen["resources"]["gpu"]
            promised = _promised(offers.get(service.resources.id) or {})
            result[service.resources.id] = GpuPlacement(vendor=gpu["vendor"], model=gpu["model"], **promised)
    return result


def _promised(offer: dict[str, Any]) -> dict[str, str]:
    """`vendor/nvidia/model/a100/ram/80Gi/interface/pcie` as what it says beyond vendor and model."""
    parts = [part for item in offer.get("attributes") or [] for part in item["key"].split("/")]
    said = dict(pairwise(parts))
    return {"memory_size": said.get("ram", ""), "interface": said.get("interface", "")}
