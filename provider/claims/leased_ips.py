"""ProviderLeasedIP: one expose of one lease on a leased address (kubernetes-objects.md §2.11, §7).

All exposes of an owner that name the same endpoint carry one sharing key and so one address, also across deployments.
The chosen address is in the object's status before any stack uses it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lease.addresses import leased_ip_name, sharing_key
from lease.ids import LeaseId
from lease.manifest import Group
from provider.claims.moves import NO_MOVE, Move, read_move
from provider.kube.labels import managed_labels
from provider.protocols.cluster import PROVIDER_LEASED_IP
from provider.records.go_form import decode_lease_id, encode_lease_id

__all__ = ["AddressClaim", "address_claims", "leased_ip_object", "wanted_addresses"]


@dataclass(frozen=True, slots=True)
class AddressClaim:
    """One ProviderLeasedIP. `external_port` is effective, `proto` upper case; `address` empty until one is chosen."""

    lease: LeaseId
    service: str
    port: int
    external_port: int
    proto: str
    key: str
    address: str = ""
    move: Move = NO_MOVE

    @property
    def name(self) -> str:
        return leased_ip_name(self.key, proto=self.proto, external_port=self.external_port)

    def at(self, address: str) -> AddressClaim:
        return replace(self, address=address)


def wanted_addresses(lease: LeaseId, group: Group) -> tuple[AddressClaim, ...]:
    """The claims that a manifest asks for: one for every global expose that names an endpoint, the first of
    each name.
    """
    claims = [
        AddressClaim(
            lease=lease,
            service=service.name,
            port=expose.port,
            external_port=expose.effective_port,
            proto=expose.proto.upper() or "TCP",
            key=sharing_key(lease.owner, expose.ip),
        )
        for service in group.services or ()
        for expose in service.expose or ()
        if expose.global_ and expose.ip
    ]
    first: dict[str, AddressClaim] = {}
    for claim in claims:
        first.setdefault(claim.name, claim)
    return tuple(first.values())


def address_claims(objects: Iterable[Mapping[str, Any]]) -> dict[str, AddressClaim]:
    """Stored claims by name. An object that cannot be read claims nothing; a status without an address counts
    as none.
    """
    claims = {}
    for obj in objects:
        claim = _claim(obj)
        if claim is not None:
            claims[str(obj["metadata"]["name"])] = claim
    return claims


def leased_ip_object(claim: AddressClaim, *, namespace: str, status: bool = False) -> dict[str, Any]:
    """The object to apply, or with `status` the status subresource that holds the chosen address."""
    head = {"apiVersion": PROVIDER_LEASED_IP.api_version, "kind": PROVIDER_LEASED_IP.kind}
    if status:
        meta: dict[str, Any] = {"name": claim.name, "namespace": namespace}
        return {**head, "metadata": meta, "status": {"address": claim.address, "state": "assigned"}}
    labels = {"service-name": claim.service, "external-port": str(claim.external_port), "proto": claim.proto}
    spec = {
        "lease_id": encode_lease_id(claim.lease),
        "service_name": claim.service,
        "port": claim.port,
        "external_port": claim.external_port,
        "protocol": claim.proto,
        "sharing_key": claim.key,
    }
    meta = {"name": claim.name, "namespace": namespace, "labels": {**managed_labels(claim.lease), **labels}}
    if claim.move.annotations:
        meta["annotations"] = claim.move.annotations
    return {**head, "metadata": meta, "spec": spec}


def _claim(obj: Mapping[str, Any]) -> AddressClaim | None:
    spec = obj.get("spec") or {}
    try:
        return AddressClaim(
            lease=decode_lease_id(spec["lease_id"]),
            service=str(spec["service_name"]),
            port=int(spec["port"]),
            external_port=int(spec["external_port"]),
            proto=str(spec["protocol"]).upper(),
            key=str(spec["sharing_key"]),
            address=_address((obj.get("status") or {}).get("address")),
            move=read_move(obj),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _address(text: object) -> str:
    try:
        return str(ipaddress.ip_address(str(text)))
    except ValueError:
        return ""
