"""A tenant's JSON to a manifest, as leniently as Go reads it (sdl-and-manifest.md §5.1), with Go's texts for refusals.

Names match without case. Unknown members and everything after the first value are ignored. null leaves a field as it is
or makes a list null. A repeated member replaces the earlier one (Go would merge two objects; no client writes that).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from lease.errors import ManifestErrorKind, ManifestRefused
from lease.go_json import GoSyntaxError, Members, Number, first_value, kind_of, values_in
from lease.manifest import (
    Credentials,
    Expose,
    Group,
    HttpOptions,
    Manifest,
    Params,
    Permissions,
    Service,
    StorageMount,
    Tee,
)
from lease.resources import Attribute, Endpoint, EndpointKind, Resources, Volume

__all__ = ["MAX_MANIFEST_BYTES", "MAX_MANIFEST_VALUES", "manifest_from_json", "resources_from_value"]

MAX_MANIFEST_BYTES = 1024 * 1024
"""This provider's own limit: the size that an SDL may have."""
MAX_MANIFEST_VALUES = 50_000
"""As the nodes of an SDL: a megabyte of empty services would take seconds to read."""

_INTEGER = re.compile(
    r"[-+]?(0[xX](_?[0-9a-fA-F])+|0[oO](_?[0-7])+|0[bB](_?[01])+|0(_?[0-7])*|[1-9](_?[0-9])*)", re.ASCII
)
"""Go's integers with a base by prefix: one underscore may stand between digits and after the prefix."""
_SIGNED = re.compile(r"-?\d{1,10}", re.ASCII)
_MAX_BITS = 256


class _Where(NamedTuple):
    """The Go struct that a member belongs to and the dotted path to the member, for error texts."""

    struct: str = ""
    path: str = ""


class _Type(NamedTuple):
    """A Go struct: its name in error texts, its name inside that struct, its members."""

    name: str
    members: Mapping[str, Callable[[object, _Where], object]]

    @property
    def struct(self) -> str:
        return self.name.rpartition(".")[2]


_KEEP: Any = object()
"""null for a field that is neither list nor pointer: Go leaves the field as it is."""


def _refused(text: str) -> ManifestRefused:
    return ManifestRefused(ManifestErrorKind.DECODE, text)


def _mismatch(value: object, where: _Where, go_type: str, *, literal: str = "") -> ManifestRefused:
    into = f"struct field {where.struct}.{where.path}" if where.struct else "value"
    return _refused(f"json: cannot unmarshal {kind_of(value)}{literal} into Go {into} of type {go_type}")


def _text(value: object, where: _Where, go_type: str = "string") -> object:
    if value is None:
        return _KEEP
    if not isinstance(value, str) or isinstance(value, Number):
        raise _mismatch(value, where, go_type)
    return value


def _protocol(value: object, where: _Where) -> object:
    return _text(value, where, "v2beta3.ServiceProtocol")


def _flag(value: object, where: _Where) -> object:
    if value is None:
        return _KEEP
    if not isinstance(value, bool):
        raise _mismatch(value, where, "bool")
    return value


def _uint32(value: object, where: _Where) -> Any:
    if value is None:
        return _KEEP
    if not isinstance(value, Number):
        raise _mismatch(value, where, "uint32")
    if not value.isdigit() or len(value) > 10 or int(value) >= 2**32:
        raise _mismatch(value, where, "uint32", literal=f" {value}")
    return int(value)


def _endpoint_kind(value: object, where: _Where) -> object:
    if value is None:
        return _KEEP
    go_type = "v1beta4.Endpoint_Kind"
    if not isinstance(value, Number):
        raise _mismatch(value, where, go_type)
    if not _SIGNED.fullmatch(value) or not -(2**31) <= int(value) < 2**31:
        raise _mismatch(value, where, go_type, literal=f" {value}")
    return EndpointKind(int(value))


def _big_integer(value: object, where: _Where) -> object:
    """A quantity: decimal digits in a string (Go also takes its prefixes and underscores), at most 256 bits."""
    text = "" if value is None else _text(value, where)
    if not isinstance(text, str) or len(text) > 100 or not _INTEGER.fullmatch(text):
        raise _refused(f'math/big: cannot unmarshal "{str(text)[:100]}" into a *big.Int')
    digits = text.replace("_", "")
    octal = re.fullmatch(r"([-+]?)0([0-7]+)", digits)
    number = int(f"{octal[1]}0o{octal[2]}" if octal else digits, 0)
    if number.bit_length() > _MAX_BITS:
        raise _refused(f"integer out of range: {text}")
    return number


def _list(item: Callable[[object, _Where], object], go_type: str) -> Callable[[object, _Where], object]:
    def decode(value: object, where: _Where) -> object:
        if value is None:
            return None
        if not isinstance(value, list) or isinstance(value, Members):
            raise _mismatch(value, where, go_type)
        return tuple(item(element, where) for element in value)

    return decode


def _texts(value: object, where: _Where) -> object:
    items = _list(_text, "[]string")(value, where)
    return tuple("" if item is _KEEP else item for item in items) if isinstance(items, tuple) else items


def _folded(name: str) -> str:
    """Go's simple case folding of member names: of other letters only long s and the Kelvin sign fold to ASCII."""
    return name.replace("\u017f", "s").lower()


def _members(value: object, where: _Where, go: _Type) -> dict[str, Any]:
    """Decoded members by their JSON name, without members that are absent or null and keep their value."""
    if value is None:
        return {}
    if not isinstance(value, Members):
        raise _mismatch(value, where, go.name)
    found: dict[str, Any] = {}
    prefix = f"{where.path}." if where.path else ""
    known = {name.lower(): name for name in go.members}
    for name, item in value:
        exact = name if name in go.members else known.get(_folded(name))
        if exact is not None:
            decoded = go.members[exact](item, _Where(go.struct, prefix + exact))
            if decoded is not _KEEP:
                found[exact] = decoded
    return found


def _quantity(value: object, where: _Where) -> object:
    return _KEEP if value is None else _members(value, where, _VALUE).get("val", 0)


def _attributes(value: object, where: _Where) -> object:
    return _list(_attribute, "v1.Attributes")(value, where) or ()


def _attribute(value: object, where: _Where) -> Attribute:
    found = _members(value, where, _ATTRIBUTE)
    return Attribute(found.get("key", ""), found.get("value", ""))


def _measure(go: _Type) -> Callable[[object, _Where], object]:
    """A pointer to cpu, memory or gpu: its members, or None."""
    return lambda value, where: None if value is None else _members(value, where, go)


def _volume(value: object, where: _Where) -> Volume:
    found = _members(value, where, _STORAGE)
    return Volume(found.get("name", ""), found.get("size", 0), found.get("attributes", ()))


def _endpoint(value: object, where: _Where) -> Endpoint:
    found = _members(value, where, _ENDPOINT)
    return Endpoint(found.get("kind", EndpointKind.SHARED_HTTP), found.get("sequence_number", 0))


def _resources(value: object, where: _Where) -> Resources:
    found = _members(value, where, _RESOURCES)
    cpu, memory, gpu = (found.get(name) for name in ("cpu", "memory", "gpu"))
    return Resources(
        id=found.get("id", 0),
        cpu_milli=(cpu or {}).get("units", 0),
        memory_bytes=(memory or {}).get("size", 0),
        storage=found.get("storage"),
        gpu_units=(gpu or {}).get("units", 0),
        endpoints=found.get("endpoints"),
        cpu_attributes=(cpu or {}).get("attributes", ()),
        memory_attributes=(memory or {}).get("attributes", ()),
        gpu_attributes=(gpu or {}).get("attributes", ()),
        absent=frozenset(name for name in ("cpu", "memory", "gpu") if found.get(name) is None),
    )


def resources_from_value(value: object) -> Resources:
    """One unit from plain JSON values (dicts and lists), as group specs hold it."""
    return _resources(first_value(json.dumps(value)), _Where())


_HTTP_NAMES = {
    "maxBodySize": "max_body_size",
    "readTimeout": "read_timeout",
    "sendTimeout": "send_timeout",
    "nextTries": "next_tries",
    "nextTimeout": "next_timeout",
    "proxyBufferSize": "proxy_buffer_size",
}


def _http_options(value: object, where: _Where) -> HttpOptions:
    found = _members(value, where, _HTTP_OPTIONS)
    numbers = {field: found.get(name, 0) for name, field in _HTTP_NAMES.items()}
    return HttpOptions(**numbers, next_cases=found.get("nextCases") or ())


def _expose(value: object, where: _Where) -> Expose:
    found = _members(value, where, _EXPOSE)
    return Expose(
        port=found.get("port", 0),
        external_port=found.get("externalPort", 0),
        proto=found.get("proto", ""),
        service=found.get("service", ""),
        global_=found.get("global", False),
        hosts=found.get("hosts"),
        http_options=found.get("httpOptions") or _http_options(None, where),
        ip=found.get("ip", ""),
        endpoint_sequence_number=found.get("endpointSequenceNumber", 0),
    )


def _credentials(value: object, where: _Where) -> Credentials | None:
    if value is None:
        return None
    found = _members(value, where, _CREDENTIALS)
    return Credentials(*(found.get(name, "") for name in ("host", "email", "username", "password")))


def _mount(value: object, where: _Where) -> StorageMount:
    found = _members(value, where, _MOUNT)
    return StorageMount(found.get("name", ""), found.get("mount", ""), found.get("readOnly", False))


def _permissions(value: object, where: _Where) -> Permissions | None:
    return None if value is None else Permissions(_members(value, where, _PERMISSIONS).get("read"))


def _tee(value: object, where: _Where) -> Tee | None:
    if value is None:
        return None
    found = _members(value, where, _TEE)
    return Tee(found.get("type", ""), found.get("attestation", False))


def _params(value: object, where: _Where) -> Params | None:
    if value is None:
        return None
    found = _members(value, where, _PARAMS)
    return Params(found.get("storage"), found.get("credentials"), found.get("permissions"), found.get("tee"))


def _service(value: object, where: _Where) -> Service:
    found = _members(value, where, _SERVICE)
    return Service(
        name=found.get("name", ""),
        image=found.get("image", ""),
        resources=found.get("resources") or _resources(None, where),
        count=found.get("count", 0),
        command=found.get("command"),
        args=found.get("args"),
        env=found.get("env"),
        expose=found.get("expose"),
        params=found.get("params"),
        credentials=found.get("credentials"),
    )


def _group(value: object, where: _Where) -> Group:
    found = _members(value, where, _GROUP)
    return Group(found.get("name", ""), found.get("services"))


def _or_keep(decode: Callable[[object, _Where], object]) -> Callable[[object, _Where], object]:
    """For structs held by value: null changes nothing."""
    return lambda value, where: _KEEP if value is None else decode(value, where)


_VALUE = _Type("v1beta4.ResourceValue", {"val": _big_integer})
_ATTRIBUTE = _Type("v1.Attribute", {"key": _text, "value": _text})
_CPU = _Type("v1beta4.CPU", {"units": _quantity, "attributes": _attributes})
_GPU = _Type("v1beta4.GPU", {"units": _quantity, "attributes": _attributes})
_MEMORY = _Type("v1beta4.Memory", {"size": _quantity, "attributes": _attributes})
_STORAGE = _Type("v1beta4.Storage", {"name": _text, "size": _quantity, "attributes": _attributes})
_ENDPOINT = _Type("v1beta4.Endpoint", {"kind": _endpoint_kind, "sequence_number": _uint32})
_RESOURCES = _Type(
    "v1beta4.Resources",
    {
        "id": _uint32,
        "cpu": _measure(_CPU),
        "memory": _measure(_MEMORY),
        "storage": _list(_volume, "v1beta4.Volumes"),
        "gpu": _measure(_GPU),
        "endpoints": _list(_endpoint, "v1beta4.Endpoints"),
    },
)
_HTTP_OPTIONS = _Type("v2beta3.ServiceExposeHTTPOptions", {**dict.fromkeys(_HTTP_NAMES, _uint32), "nextCases": _texts})
_EXPOSE = _Type(
    "v2beta3.ServiceExpose",
    {
        **dict.fromkeys(("port", "externalPort", "endpointSequenceNumber"), _uint32),
        "proto": _protocol,
        **dict.fromkeys(("service", "ip"), _text),
        "global": _flag,
        "hosts": _texts,
        "httpOptions": _or_keep(_http_options),
    },
)
_CREDENTIALS = _Type("v2beta3.ImageCredentials", dict.fromkeys(("host", "email", "username", "password"), _text))
_MOUNT = _Type("v2beta3.StorageParams", {"name": _text, "mount": _text, "readOnly": _flag})
_PERMISSIONS = _Type("v2beta3.ServicePermissions", {"read": _texts})
_TEE = _Type("v2beta3.TEEParams", {"type": _text, "attestation": _flag})
_PARAMS = _Type(
    "v2beta3.ServiceParams",
    {
        "storage": _list(_mount, "[]v2beta3.StorageParams"),
        "credentials": _credentials,
        "permissions": _permissions,
        "tee": _tee,
    },
)
_SERVICE = _Type(
    "v2beta3.Service",
    {
        "name": _text,
        "image": _text,
        **dict.fromkeys(("command", "args", "env"), _texts),
        "resources": _or_keep(_resources),
        "count": _uint32,
        "expose": _list(_expose, "v2beta3.ServiceExposes"),
        "params": _params,
        "credentials": _credentials,
    },
)
_GROUP = _Type("v2beta3.Group", {"name": _text, "services": _list(_service, "v2beta3.Services")})


def manifest_from_json(body: bytes | str) -> Manifest:
    """The manifest in `body`; () for null and for no groups. Raises `ManifestRefused` of kind DECODE with Go's text."""
    if len(body) > MAX_MANIFEST_BYTES:
        raise _refused(f"manifest of {len(body)} bytes; at most {MAX_MANIFEST_BYTES} are read")
    values = values_in(body.encode() if isinstance(body, str) else body, most=MAX_MANIFEST_VALUES)
    if values > MAX_MANIFEST_VALUES:
        raise _refused(f"manifest of {values} values; at most {MAX_MANIFEST_VALUES} are read")
    try:
        value = first_value(body)
    except GoSyntaxError as error:
        raise _refused(str(error)) from None
    groups = _list(_group, "v2beta3.Manifest")(value, _Where())
    return groups if isinstance(groups, tuple) else ()
