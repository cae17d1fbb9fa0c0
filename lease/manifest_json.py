"""A manifest to JSON and to its hash, byte for byte as the Go code writes them (sdl-and-manifest.md §3.1-3.4)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from lease.go_json import go_json
from lease.manifest import Credentials, Expose, HttpOptions, Manifest, Params, Service
from lease.manifest_decode import manifest_from_json
from lease.resources import Attribute, Resources

__all__ = [
    "canonical_manifest",
    "manifest_from_json",
    "manifest_json",
    "manifest_value",
    "manifest_version",
    "resources_value",
]


def attributes_value(attributes: Sequence[Attribute]) -> list[dict[str, str]]:
    """Attributes as JSON values; an empty key or value is left out."""
    return [{name: text for name, text in (("key", item.key), ("value", item.value)) if text} for item in attributes]


def _with_attributes(value: dict[str, Any], attributes: Sequence[Attribute]) -> dict[str, Any]:
    if attributes:
        value["attributes"] = attributes_value(attributes)
    return value


def resources_value(resources: Resources) -> dict[str, Any]:
    """One unit, in Go's field order, for manifests and group specs. Absent parts and no storage are left out."""
    cpu = _with_attributes({"units": {"val": str(resources.cpu_milli)}}, resources.cpu_attributes)
    memory = _with_attributes({"size": {"val": str(resources.memory_bytes)}}, resources.memory_attributes)
    gpu = _with_attributes({"units": {"val": str(resources.gpu_units)}}, resources.gpu_attributes)
    storage = [
        _with_attributes({"name": volume.name, "size": {"val": str(volume.size_bytes)}}, volume.attributes)
        for volume in resources.storage or ()
    ]
    endpoints = None
    if resources.endpoints is not None:
        endpoints = [
            {"kind": int(item.kind), "sequence_number": item.sequence_number}
            if item.kind
            else {"sequence_number": item.sequence_number}
            for item in resources.endpoints
        ]
    members = {"cpu": cpu, "memory": memory, "storage": storage, "gpu": gpu}
    given = {name: value for name, value in members.items() if value and name not in resources.absent}
    return {"id": resources.id, **given, "endpoints": endpoints}


def _http_options_value(options: HttpOptions) -> dict[str, Any]:
    value: dict[str, Any] = {
        "maxBodySize": options.max_body_size,
        "readTimeout": options.read_timeout,
        "sendTimeout": options.send_timeout,
        "nextTries": options.next_tries,
        "nextTimeout": options.next_timeout,
    }
    if options.next_cases:
        value["nextCases"] = options.next_cases
    if options.proxy_buffer_size:
        value["proxyBufferSize"] = options.proxy_buffer_size
    return value


def _expose_value(expose: Expose) -> dict[str, Any]:
    return {
        "port": expose.port,
        "externalPort": expose.external_port,
        "proto": expose.proto,
        "service": expose.service,
        "global": expose.global_,
        "hosts": expose.hosts,
        "httpOptions": _http_options_value(expose.http_options),
        "ip": expose.ip,
        "endpointSequenceNumber": expose.endpoint_sequence_number,
    }


def _credentials_value(credentials: Credentials) -> dict[str, str]:
    return {
        "host": credentials.host,
        "email": credentials.email,
        "username": credentials.username,
        "password": credentials.password,
    }


def _params_value(params: Params) -> dict[str, Any]:
    value: dict[str, Any] = {"storage": None}
    if params.storage is not None:
        value["storage"] = [
            {"name": item.name, "mount": item.mount, "readOnly": item.read_only} for item in params.storage
        ]
    if params.credentials is not None:
        value["credentials"] = _credentials_value(params.credentials)
    if params.permissions is not None:
        value["permissions"] = {"read": params.permissions.read} if params.permissions.read else {}
    if params.tee is not None:
        value["tee"] = {"type": params.tee.type, "attestation": params.tee.attestation}
    return value


def _service_value(service: Service) -> dict[str, Any]:
    value: dict[str, Any] = {
        "name": service.name,
        "image": service.image,
        "command": service.command,
        "args": service.args,
        "env": service.env,
        "resources": resources_value(service.resources),
        "count": service.count,
        "expose": None if service.expose is None else [_expose_value(expose) for expose in service.expose],
    }
    if service.params is not None:
        value["params"] = _params_value(service.params)
    value["credentials"] = None if service.credentials is None else _credentials_value(service.credentials)
    return value


def manifest_value(manifest: Manifest) -> list[dict[str, Any]]:
    """The manifest as JSON values, members in Go's field order."""
    return [
        {
            "name": group.name,
            "services": None if group.services is None else [_service_value(service) for service in group.services],
        }
        for group in manifest
    ]


def manifest_json(manifest: Manifest, *, indent: int | None = None) -> str:
    """The manifest as JSON: with `indent=2` as `sdl-to-manifest` prints it, otherwise compact, as clients send it."""
    return go_json(manifest_value(manifest), indent=indent)


def canonical_manifest(manifest: Manifest) -> bytes:
    """The bytes that are hashed: compact JSON with sorted keys; lists keep their order."""
    return go_json(manifest_value(manifest), sort_keys=True).encode()


def manifest_version(manifest: Manifest) -> bytes:
    """SHA-256 of the canonical bytes (32 bytes): the deployment's hash on chain."""
    return hashlib.sha256(canonical_manifest(manifest)).digest()
