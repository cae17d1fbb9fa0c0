"""A manifest in the messages of `LeaseRPC`, as the JSON text that REST takes (gateway.md §3.4, §5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lease.manifest import (
    Credentials,
    Expose,
    Group,
    HttpOptions,
    Params,
    Permissions,
    Service,
    StorageMount,
    Tee,
)
from lease.manifest_json import manifest_json
from provider.chain.codec import resources_from_pb

__all__ = ["manifest_text"]


def manifest_text(groups: Iterable[Any]) -> bytes:
    """The manifest of `Group` messages as JSON. A message does not tell an empty list from none: both are null, but for
    exposes and endpoints, which an SDL never leaves out. Raises ValueError for an amount that is not a number.
    """
    return manifest_json(tuple(_group(group) for group in groups)).encode()


def _group(group: Any) -> Group:
    return Group(group.name, tuple(_service(service) for service in group.services) or None)


def _service(service: Any) -> Service:
    return Service(
        name=service.name,
        image=service.image,
        command=tuple(service.command) or None,
        args=tuple(service.args) or None,
        env=tuple(service.env) or None,
        resources=resources_from_pb(service.resources),
        count=service.count,
        expose=tuple(_expose(expose) for expose in service.expose),
        params=_params(service.params) if service.HasField("params") else None,
        credentials=_credentials(service.credentials) if service.HasField("credentials") else None,
    )


def _expose(expose: Any) -> Expose:
    return Expose(
        port=expose.port,
        external_port=expose.external_port,
        proto=expose.proto,
        service=expose.service,
        global_=getattr(expose, "global"),
        hosts=tuple(expose.hosts) or None,
        http_options=_http_options(expose.http_options),
        ip=expose.ip,
        endpoint_sequence_number=expose.endpoint_sequence_number,
    )


def _http_options(options: Any) -> HttpOptions:
    return HttpOptions(
        max_body_size=options.max_body_size,
        read_timeout=options.read_timeout,
        send_timeout=options.send_timeout,
        next_tries=options.next_tries,
        next_timeout=options.next_timeout,
        next_cases=tuple(options.next_cases),
        proxy_buffer_size=options.proxy_buffer_size,
    )


def _params(params: Any) -> Params:
    return Params(
        storage=tuple(StorageMount(item.name, item.mount, item.read_only) for item in params.storage) or None,
        credentials=_credentials(params.credentials) if params.HasField("credentials") else None,
        permissions=Permissions(tuple(params.permissions.read) or None) if params.HasField("permissions") else None,
        tee=Tee(params.tee.type, params.tee.attestation) if params.HasField("tee") else None,
    )


def _credentials(credentials: Any) -> Credentials:
    return Credentials(credentials.host, credentials.email, credentials.username, credentials.password)
