"""Status documents of a lease and of one service (gateway.md §3.6–3.7): pure, objects in and JSON values out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lease.manifest import Group
from provider.gateway.errors import RequestError
from provider.gateway.lease_objects import LeaseObjects
from provider.lifecycle.health.edges import given_addresses
from provider.records.manifests import BadRecordError, read_manifest

__all__ = ["lease_status", "require_running_group", "service_status", "stored_group"]

_PROTOCOLS = ("TCP", "UDP")


def require_running_group(objects: LeaseObjects) -> Group:
    """The group of the newest manifest. Raises `RequestError` 404 unless the lease has a manifest, a namespace and
    workloads, 500 for a stored manifest that cannot be read.
    """
    if objects.manifest is None:
        raise RequestError(404, "")
    why = f": {objects.trouble}" if objects.trouble else ""
    if not objects.namespace:
        raise RequestError(404, f"kube: lease not found{why}")
    if not objects.workloads:
        raise RequestError(404, f"kube: no deployments for lease{why}")
    return stored_group(objects.manifest)


def stored_group(manifest: dict[str, Any]) -> Group:
    """The group in a Manifest object. Raises `RequestError` 500 when it cannot be read."""
    try:
        return read_manifest(manifest).group
    except BadRecordError as error:
        raise RequestError(500, "kube: internal error: the stored manifest cannot be read") from error


def lease_status(group: Group, objects: LeaseObjects, *, public_hostname: str, leased_ips: bool) -> dict[str, Any]:
    """The status document of a lease. `leased_ips`: whether this provider leases addresses.

    `errors` holds the reason why the newest manifest does not run. The Go provider has the field and never fills it.
    """
    errors = {"errors": [objects.trouble]} if objects.trouble else {}
    return {
        "services": {name: service_status(name, objects) for name in _workload_names(objects)},
        "forwarded_ports": _forwarded_ports(objects, public_hostname) if _forwards_ports(group) else None,
        "ips": _addresses(objects) if leased_ips and _leases_ips(group) else None,
    } | errors


def service_status(name: str, objects: LeaseObjects) -> dict[str, Any] | None:
    """The status of one service, None when it has no workload. A StatefulSet's availability is its `currentReplicas`,
    as in Go.

    `uris` are the hostnames of this service. The Go provider's service status lists every hostname of the lease, which
    gateway.md §3.7 marks as a defect.
    """
    for workloads, available in (
        (objects.deployments, "availableReplicas"),
        (objects.stateful_sets, "currentReplicas"),
    ):
        for workload in workloads:
            if workload["metadata"]["name"] == name:
                return _workload_status(name, workload.get("status") or {}, available, _hostnames(objects, name))
    return None


def _workload_status(name: str, status: dict[str, Any], available: str, uris: list[str]) -> dict[str, Any]:
    replicas, ready = status.get("replicas", 0), status.get(available, 0)
    return {
        "name": name,
        "available": ready,
        "total": replicas,
        "uris": uris or None,
        "observed_generation": status.get("observedGeneration", 0),
        "replicas": replicas,
        "updated_replicas": status.get("updatedReplicas", 0),
        "ready_replicas": status.get("readyReplicas", 0),
        "available_replicas": ready,
    }


def _workload_names(objects: LeaseObjects) -> list[str]:
    return sorted(workload["metadata"]["name"] for workload in objects.workloads)


def _hostnames(objects: LeaseObjects, service: str) -> list[str]:
    specs = (host["spec"] for host in objects.hosts)
    return sorted(spec["hostname"] for spec in specs if spec.get("service_name") == service)


def _forwards_ports(group: Group) -> bool:
    """Whether a global expose has another external port than 80 as stored; 0, "same as port", counts as another."""
    exposes = (expose for service in group.services or () for expose in service.expose or ())
    return any(expose.global_ and expose.external_port != 80 for expose in exposes)


def _leases_ips(group: Group) -> bool:
    return any(expose.ip for service in group.services or () for expose in service.expose or ())


def _forwarded_ports(objects: LeaseObjects, public_hostname: str) -> dict[str, list[dict[str, Any]]]:
    forwarded: dict[str, list[dict[str, Any]]] = {}
    for service in sorted(objects.services, key=lambda item: str(item["metadata"]["name"])):
        name = service["metadata"]["name"]
        if service["spec"].get("type") == "NodePort" and name.endswith("-np"):
            target = name.removesuffix("-np")
            forwarded[target] = [_port(target, port, public_hostname) for port in _served(service["spec"])]
    return forwarded


def _served(spec: dict[str, Any]) -> Iterable[dict[str, Any]]:
    return (
        port for port in spec.get("ports") or [] if port.get("protocol", "TCP") in _PROTOCOLS and port.get("nodePort")
    )


def _port(service: str, port: dict[str, Any], public_hostname: str) -> dict[str, Any]:
    host = {"host": public_hostname} if public_hostname else {}
    numbers = {"port": port.get("targetPort", port["port"]), "externalPort": port["nodePort"]}
    return host | numbers | {"proto": port.get("protocol", "TCP"), "name": service}


def _addresses(objects: LeaseObjects) -> dict[str, list[dict[str, Any]]]:
    """The addresses that the Services have got: the chosen one alone serves nobody. Clients depend on Go's capital
    letters.
    """
    given = {str(service["metadata"]["name"]): given_addresses(service) for service in objects.services}
    addresses: dict[str, list[dict[str, Any]]] = {}
    for leased in sorted(objects.leased_ips, key=lambda item: str(item["metadata"]["name"])):
        spec = leased["spec"]
        name = f"{spec['service_name']}-ip-{spec['external_port']}-{spec['protocol']}".lower()
        row = {"Port": spec["port"], "ExternalPort": spec["external_port"], "Protocol": spec["protocol"]}
        for address in given.get(name, ())[:1]:
            addresses.setdefault(spec["service_name"], []).append(row | {"IP": address})
    return addresses
