"""The Go provider's form of a lease id and a manifest group in `akash.network/v2beta2` (kubernetes-objects.md §2.11).

Numbers are texts where Go writes texts; empty lists and null levels are left out as in Go; the scheduler_params of a
service hold the GPU that the reservation chose for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lease.ids import LeaseId
from lease.manifest import Credentials, Expose, Group, HttpOptions, Params, Permissions, Service, StorageMount
from lease.resources import Attribute, Resources, Volume
from lease.spec import GpuPlacement

__all__ = ["decode_group", "decode_lease_id", "encode_group", "encode_lease_id"]

_RUNTIME = {"nvidia": "nvidia"}
"""runtimeClassName by vendor, as the reservation records it."""


def encode_lease_id(lease: LeaseId) -> dict[str, Any]:
    """The lease id; dseq is a text here (and an integer in ProviderHost)."""
    return {
        "owner": lease.owner,
        "dseq": str(lease.dseq),
        "gseq": lease.gseq,
        "oseq": lease.oseq,
        "provider": lease.provider,
    }


def decode_lease_id(data: Mapping[str, Any]) -> LeaseId:
    """The lease id in `data`. Raises KeyError, TypeError or ValueError when there is none."""
    owner, provider = str(data["owner"]), str(data["provider"])
    if not owner or not provider or "/" in owner + provider:
        raise ValueError(f"owner {owner!r} and provider {provider!r} must be addresses")
    return LeaseId(owner, int(data["dseq"]), int(data["gseq"]), int(data["oseq"]), provider)


def encode_group(group: Group, placements: Mapping[int, GpuPlacement | None]) -> dict[str, Any]:
    """The group; services keep their order, and services that share a resource id share their placement."""
    services = [_encode_service(service, placements.get(service.resources.id)) for service in group.services or ()]
    return {"name": group.name, "services": services}


def decode_group(data: Mapping[str, Any]) -> tuple[Group, dict[int, GpuPlacement]]:
    """Group and GPU placements by resource id. Endpoints come back empty: the form does not hold them."""
    services = data.get("services") or ()
    placements = {int(item["resources"]["id"]): placed for item in services if (placed := _placement(item)) is not None}
    return Group(str(data["name"]), tuple(_decode_service(item) for item in services)), placements


def _encode_service(service: Service, placement: GpuPlacement | None) -> dict[str, Any]:
    return {
        "name": service.name,
        "image": service.image,
        **_lists(command=service.command, args=service.args, env=service.env),
        "resources": _encode_resources(service.resources),
        "count": service.count,
        **({"expose": [_encode_expose(item) for item in service.expose]} if service.expose else {}),
        **({"params": _encode_params(service.params)} if service.params is not None else {}),
        **({"scheduler_params": _encode_placement(placement)} if placement and service.resources.gpu_units else {}),
        **({"credentials": _encode_credentials(service.credentials)} if service.credentials else {}),
    }


def _decode_service(data: Mapping[str, Any]) -> Service:
    credentials = data.get("credentials")
    return Service(
        name=str(data["name"]),
        image=str(data["image"]),
        resources=_decode_resources(data["resources"]),
        count=int(data["count"]),
        command=_texts(data.get("command")),
        args=_texts(data.get("args")),
        env=_texts(data.get("env")),
        expose=tuple(_decode_expose(item) for item in data.get("expose") or ()),
        params=_decode_params(data["params"]) if data.get("params") is not None else None,
        credentials=Credentials(*(str(credentials.get(key, "")) for key in _CREDENTIALS)) if credentials else None,
    )


def _encode_resources(resources: Resources) -> dict[str, Any]:
    return {
        "id": resources.id,
        "cpu": {"units": resources.cpu_milli, **_attributes(resources.cpu_attributes)},
        "gpu": {"units": resources.gpu_units, **_attributes(resources.gpu_attributes)},
        "memory": {"size": str(resources.memory_bytes), **_attributes(resources.memory_attributes)},
        **({"storage": [_encode_volume(item) for item in resources.storage]} if resources.storage else {}),
    }


def _decode_resources(data: Mapping[str, Any]) -> Resources:
    cpu, gpu, memory = (data.get(key) or {} for key in ("cpu", "gpu", "memory"))
    return Resources(
        id=int(data["id"]),
        cpu_milli=int(cpu.get("units", 0)),
        memory_bytes=int(memory.get("size", 0)),
        storage=tuple(
            Volume(str(item.get("name", "")), int(item["size"]), _decode_attributes(item))
            for item in data.get("storage") or ()
        ),
        gpu_units=int(gpu.get("units", 0)),
        cpu_attributes=_decode_attributes(cpu),
        memory_attributes=_decode_attributes(memory),
        gpu_attributes=_decode_attributes(gpu),
    )


def _encode_volume(volume: Volume) -> dict[str, Any]:
    return {"name": volume.name, "size": str(volume.size_bytes), **_attributes(volume.attributes)}


def _encode_expose(expose: Expose) -> dict[str, Any]:
    return {
        "port": expose.port,
        **_filled(external_port=expose.external_port, proto=expose.proto, service=expose.service),
        **({"global": True} if expose.global_ else {}),
        **_lists(hosts=expose.hosts),
        "http_options": _encode_http(expose.http_options),
        **_filled(ip=expose.ip),
        "endpoint_sequence_number": expose.endpoint_sequence_number,
    }


def _decode_expose(data: Mapping[str, Any]) -> Expose:
    return Expose(
        port=int(data.get("port", 0)),
        external_port=int(data.get("external_port", 0)),
        proto=_protocol(str(data.get("proto", ""))),
        service=str(data.get("service", "")),
        global_=bool(data.get("global", False)),
        hosts=_texts(data.get("hosts")),
        http_options=_decode_http(data.get("http_options") or {}),
        ip=str(data.get("ip", "")),
        endpoint_sequence_number=int(data.get("endpoint_sequence_number", 0)),
    )


def _protocol(text: str) -> str:
    if (protocol := text.upper() or "TCP") not in ("TCP", "UDP"):
        raise ValueError(f"unsupported service protocol {text!r}: it must be TCP or UDP")
    return protocol


_HTTP = ("max_body_size", "read_timeout", "send_timeout", "next_tries", "next_timeout")
_CREDENTIALS = ("host", "email", "username", "password")


def _encode_http(options: HttpOptions) -> dict[str, Any]:
    return {
        **_filled(**{key: getattr(options, key) for key in _HTTP}),
        **_lists(next_cases=options.next_cases),
    }


def _decode_http(data: Mapping[str, Any]) -> HttpOptions:
    numbers = {key: int(data.get(key, 0)) for key in _HTTP}
    return HttpOptions(**numbers, next_cases=_texts(data.get("next_cases")) or ())


def _encode_params(params: Params) -> dict[str, Any]:
    mounts = [_encode_mount(item) for item in params.storage or ()]
    read = params.permissions.read if params.permissions else None
    return {
        **({"storage": mounts} if mounts else {}),
        **({"permissions": _lists(read=read)} if params.permissions else {}),
    }


def _encode_mount(mount: StorageMount) -> dict[str, Any]:
    return {"name": mount.name, **_filled(mount=mount.mount), "readOnly": mount.read_only}


def _decode_params(data: Mapping[str, Any]) -> Params:
    mounts = tuple(
        StorageMount(str(item["name"]), str(item.get("mount", "")), bool(item.get("readOnly", False)))
        for item in data.get("storage") or ()
    )
    permissions = data.get("permissions")
    return Params(
        storage=mounts or None,
        permissions=Permissions(_texts(permissions.get("read"))) if permissions is not None else None,
    )


def _encode_credentials(credentials: Credentials) -> dict[str, str]:
    return {key: getattr(credentials, key) for key in _CREDENTIALS}


def _encode_placement(placement: GpuPlacement) -> dict[str, Any]:
    gpu = {
        "vendor": placement.vendor,
        "model": placement.model,
        "memory_size": placement.memory_size,
        "interface": placement.interface,
    }
    runtime = _RUNTIME.get(placement.vendor)
    return {**({"runtime_class": runtime} if runtime else {}), "resources": {"gpu": gpu}}


def _placement(service: Mapping[str, Any]) -> GpuPlacement | None:
    gpu = ((service.get("scheduler_params") or {}).get("resources") or {}).get("gpu")
    if not gpu:
        return None
    return GpuPlacement(
        vendor=str(gpu.get("vendor", "")),
        model=str(gpu.get("model", "")),
        memory_size=str(gpu.get("memory_size", "")),
        interface=str(gpu.get("interface", "")),
    )


def _attributes(attributes: Sequence[Attribute]) -> dict[str, Any]:
    return {"attributes": [{"key": item.key, "value": item.value} for item in attributes]} if attributes else {}


def _decode_attributes(data: Mapping[str, Any]) -> tuple[Attribute, ...]:
    return tuple(Attribute(str(item["key"]), str(item["value"])) for item in data.get("attributes") or ())


def _texts(value: Any) -> tuple[str, ...] | None:
    """A list of texts; a list that Go left out because it was empty is None."""
    return tuple(str(item) for item in value) if value else None


def _lists(**values: Sequence[str] | None) -> dict[str, list[str]]:
    return {key: list(value) for key, value in values.items() if value}


def _filled(**values: str | int) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}
