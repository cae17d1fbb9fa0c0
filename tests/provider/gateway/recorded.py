"""The recorded exchanges of the Go provider, and the world they were recorded in."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

from ecdsa import SECP256k1, VerifyingKey
from ecdsa.util import sigdecode_string

from lease.groups import GroupSpec, Requirements, ResourceUnit
from lease.ids import DeploymentId, LeaseId, namespace_name
from lease.manifest import Group, Manifest, Service
from lease.manifest_decode import manifest_from_json
from lease.manifest_json import manifest_version
from provider.kube.labels import managed_labels
from provider.protocols.chain import Deployment, DeploymentState
from provider.protocols.cluster import DEPLOYMENT, NAMESPACE, PROVIDER_HOST, PROVIDER_LEASED_IP, SERVICE, STATEFUL_SET
from provider.records.manifests import ManifestRecord, manifest_object
from tests.data import rows
from tests.provider.gateway.accounts import address_of
from tests.provider.gateway.world import FREE, PROVIDER, World, place, rented

MAIN, DEST, BARE, NO_STATIC = 82022200, 82022201, 82022211, 82078931
Record = dict[str, Any]


@cache
def records(name: str) -> list[Record]:
    return list(rows(f"recordings/gateway/{name}.jsonl"))


def record(file: str, name: str) -> Record:
    return next(row for row in records(file) if row["name"] == name)


def request_body(row: Record) -> bytes | None:
    request = row["request"]
    if "body_base64" in request:
        return base64.b64decode(request["body_base64"])
    return None if request.get("body") is None else request["body"].encode()


def header(row: Record, name: str, side: str = "response") -> str | None:
    pairs = (row[side] or {}).get("headers") or []
    return next((value for key, value in pairs if key.lower() == name.lower()), None)


def moment(row: Record) -> float:
    return parsedate_to_datetime(header(row, "Date") or "").timestamp()


def token_of(row: Record) -> str:
    fields = (header(row, "Authorization", "request") or "").split()
    return fields[-1] if fields else ""


def issuer(row: Record) -> str:
    payload = token_of(row).split(".")[1]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["iss"]


@cache
def account_keys() -> dict[str, bytes]:
    """Public keys of the recorded tenants, recovered from their signatures: the recordings hold tokens only."""
    found: dict[str, bytes] = {}
    for row in (*records("auth"), *records("manifest"), *records("lease")):
        match = re.fullmatch(r"([\w-]+\.([\w-]+))\.([\w-]{86})", token_of(row))
        if match and (row["response"] or {}).get("status") in (200, 404):
            address = issuer(row)
            if address not in found:
                found |= _recovered(address, match[1].encode(), base64.urlsafe_b64decode(match[3] + "=="))
    return found


def _recovered(address: str, message: bytes, signature: bytes) -> dict[str, bytes]:
    keys = VerifyingKey.from_public_key_recovery(signature, message, SECP256k1, hashlib.sha256, sigdecode_string)
    candidates = (item.to_string("compressed") for item in keys)
    return {address_of(key): key for key in candidates if address_of(key) == address}


def deployed(owner: str, dseq: int, manifest: Manifest, groups: tuple[GroupSpec, ...] | None = None) -> Deployment:
    specs = group_specs(manifest) if groups is None else groups
    return Deployment(DeploymentId(owner, dseq), DeploymentState.ACTIVE, manifest_version(manifest), specs)


def group_specs(manifest: Manifest) -> tuple[GroupSpec, ...]:
    """The groups on chain that exactly fit a manifest."""
    return tuple(GroupSpec(group.name, Requirements(), _units(group.services or ())) for group in manifest)


def _units(services: tuple[Service, ...]) -> tuple[ResourceUnit, ...]:
    return tuple(ResourceUnit(service.resources, service.count, FREE) for service in services)


def lease_of(owner: str, dseq: int) -> LeaseId:
    return LeaseId(owner, dseq, 1, 1, PROVIDER)


def fill_chain(world: World) -> None:
    """Every deployment the recorded PUTs were for, with what is special about its groups."""
    world.chain.public_keys |= account_keys()
    rows = [row for row in (*records("manifest"), record("lease", _DEST_PUT)) if row["request"]["method"] == "PUT"]
    for name, change in _SPECIAL.items():
        row = next(item for item in rows if item["name"] == name)
        dseq = int(row["request"]["path"].split("/")[2])
        manifest = manifest_from_json(request_body(row) or b"")
        deployment = deployed(issuer(row), dseq, manifest, change(group_specs(manifest)))
        rented(world.chain, deployment, *([] if name == "no lease" else [lease_of(issuer(row), dseq)]))


def _as_is(groups: tuple[GroupSpec, ...]) -> tuple[GroupSpec, ...]:
    return groups


def _units_changed(**changes: Any) -> Any:
    def change(groups: tuple[GroupSpec, ...]) -> tuple[GroupSpec, ...]:
        first = groups[0]
        units = tuple(replace(unit, resources=replace(unit.resources, **changes)) for unit in first.units)
        return (replace(first, units=units),)

    return change


def _one_replica(groups: tuple[GroupSpec, ...]) -> tuple[GroupSpec, ...]:
    return (replace(groups[0], units=tuple(replace(unit, count=1) for unit in groups[0].units)),)


_DEST_PUT = "put manifest of a second lease with a withheld host and endpoint"
_SPECIAL = {
    "accepted": _as_is,
    _DEST_PUT: _as_is,
    "no lease": _as_is,
    "hostname blocked blocked.example.net": _as_is,
    "hostname blocked a.blocked.example.org": _as_is,
    "two groups in manifest, one on chain": lambda groups: groups[:1],
    "unknown group name": lambda groups: (replace(groups[0], name="dc"),),
    "cpu differs from the group": _units_changed(cpu_milli=111),
    "count above the group": _one_replica,
    "endpoints differ from the group": _as_is,  # the record itself lists one endpoint for two exposes
    "hostname in use by another owner": _as_is,
    "static hosts off: HTTP service without host": _as_is,
    "static hosts off: HTTP service with host": _as_is,
}


def fill_cluster(world: World, *, addresses: bool) -> None:
    """The leases `main` and `dest` as they ran; `addresses`: whether the Service has the leased IP already."""
    owner = issuer(record("manifest", "accepted"))
    main, dest, plain = lease_of(owner, MAIN), lease_of(owner, DEST), lease_of(owner, NO_STATIC)
    _record(world, main, request_body(record("manifest", "accepted")))
    _record(world, dest, request_body(record("lease", _DEST_PUT)))
    _record(world, plain, request_body(record("manifest", "static hosts off: HTTP service with host")))
    _workloads(world, main, Deployment={"web": 2}, StatefulSet={"db": 1})
    _workloads(world, dest, Deployment={"site": 1})
    _workloads(world, plain, Deployment={"web": 1})
    ports = [("TCP", 22, 30625), ("UDP", 5353, 32047), ("TCP", 8443, 30399)]
    _node_ports(world, main, "web", ports)
    _node_ports(world, dest, "site", [("TCP", 8443, 31776)])
    _hosts(world, main, "web", "rj5vqg7i91eq9cu9ck5najo8ls.ingress.example.com", "www.example.org")
    _hosts(world, dest, "site", "jlbsf27jp5aap7s54ptdln40pg.ingress.example.com", "own.example.org")
    _hosts(world, plain, "web", "nohost.example.org")
    spec = {"service_name": "web", "port": 8443, "external_port": 443, "protocol": "TCP", "sharing_key": "key"}
    labels = managed_labels(main)
    place(world.cluster, PROVIDER_LEASED_IP, "key-tcp-443", namespace="lease", labels=labels, spec=spec, status={})
    given = {"loadBalancer": {"ingress": [{"ip": "203.0.113.10"}] if addresses else []}}
    name, space = "web-ip-443-tcp", namespace_name(main)
    place(world.cluster, SERVICE, name, namespace=space, spec={"type": "LoadBalancer", "ports": []}, status=given)


def _record(world: World, lease: LeaseId, body: bytes | None) -> None:
    group: Group = manifest_from_json(body or b"")[0]
    obj = manifest_object(ManifestRecord(lease, group, {}), namespace="lease")
    world.cluster.put(obj)
    place(world.cluster, NAMESPACE, namespace_name(lease))


_WORKLOADS = {"Deployment": DEPLOYMENT, "StatefulSet": STATEFUL_SET}


def _workloads(world: World, lease: LeaseId, **kinds: dict[str, int]) -> None:
    for kind, services in kinds.items():
        for name, replicas in services.items():
            names = ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas", "currentReplicas")
            status = dict.fromkeys(names, replicas) | {"observedGeneration": 1}
            place(world.cluster, _WORKLOADS[kind], name, namespace=namespace_name(lease), spec={}, status=status)


def _node_ports(world: World, lease: LeaseId, service: str, ports: list[tuple[str, int, int]]) -> None:
    rows = [{"protocol": proto, "port": port, "targetPort": port, "nodePort": node} for proto, port, node in ports]
    spec = {"type": "NodePort", "ports": rows}
    place(world.cluster, SERVICE, f"{service}-np", namespace=namespace_name(lease), spec=spec)
    place(world.cluster, SERVICE, service, namespace=namespace_name(lease), spec={"type": "ClusterIP", "ports": rows})


def _hosts(world: World, lease: LeaseId, service: str, *names: str) -> None:
    for name in names:
        spec = {"hostname": name, "owner": lease.owner, "service_name": service}
        place(world.cluster, PROVIDER_HOST, name, namespace="lease", labels=managed_labels(lease), spec=spec)
