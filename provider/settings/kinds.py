"""Kinds of settings: how a text of the environment becomes a value, and the error when it is none."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field

from provider.units import (
    AddressRange,
    Coin,
    parse_address,
    parse_address_range,
    parse_blocked,
    parse_closed_range,
    parse_coin,
    parse_duration,
    parse_endpoint,
    parse_hostname,
    parse_label,
    parse_nginx_size,
    parse_object_name,
    parse_quantity,
    usable_range,
)

__all__ = [
    "RELOADED",
    "AcmeDirectory",
    "AddressRanges",
    "Addresses",
    "BlockedNames",
    "ClassSizes",
    "ClosedRanges",
    "CoinText",
    "Duration",
    "EdgeKind",
    "Endpoints",
    "Form",
    "GatewayForm",
    "Hostname",
    "HostnameList",
    "InventoryEndpoint",
    "Items",
    "Labels",
    "Listen",
    "ListenOrPort",
    "MaybeListen",
    "MaybeName",
    "MaybeNamespaced",
    "NginxSize",
    "NodeAddresses",
    "ObjectName",
    "ObjectNames",
    "PortRange",
    "ProofKind",
    "Scale",
    "StorageScales",
    "ap",
    "lessor",
]


RELOADED = "reloaded"
"""The mark of a field (`json_schema_extra`) that a running provider takes from its sources on SIGHUP."""


class EdgeKind(StrEnum):
    """The ingress controllers that differ in what a provider may do with them."""

    INGRESS_NGINX = "ingress-nginx"
    TRAEFIK = "traefik"
    TRAEFIK_PLAIN = "traefik-plain"
    """Traefik whose provider for Ingresses is `kubernetesIngress`, which reads no annotations of NGINX."""


class ProofKind(StrEnum):
    """How a tenant proves that it owns a hostname."""

    OFF = "off"
    DNS = "dns"
    HTTP = "http"
    EITHER = "either"


class GatewayForm(StrEnum):
    """Where the gateway runs: in the provider's process, in a child of it, or in a process that the operator starts."""

    INSIDE = "inside"
    CHILD = "child"
    SEPARATE = "separate"


_ADDRESS = re.compile(r"https?://[^\s/@]+(/[^\s@]*)?")
_LISTEN = re.compile(r"(\[[0-9a-fA-F:]+\]|[^:\s]*):(\d{1,5})")


@dataclass(frozen=True, slots=True)
class Form:
    """How a value of this kind is written, for the reference of settings."""

    text: str


def ap(flag: str) -> AliasChoices:
    """A setting that the Go provider has; it reads both prefixes, `AP_` first."""
    return AliasChoices(f"AP_{flag}", f"AKASH_{flag}")


def lessor(name: str) -> AliasChoices:
    return AliasChoices(f"LESSOR_{name}")


def _items(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _duration(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


def _coin(value: object) -> object:
    return parse_coin(value) if isinstance(value, str) else value


def _ranges(value: object) -> object:
    """The ranges without the addresses that are not leased. Raises ValueError for a range without one."""
    if not isinstance(value, str):
        return value
    found: list[AddressRange] = []
    for part in _items(value):  # type: ignore[attr-defined]
        usable = usable_range(parse_address_range(part))
        if usable is None:
            raise ValueError(f"{part} has no usable address: those that end in .0 or .255 are not leased")
        found.append(usable)
    return tuple(found)


def _scale(value: object) -> object:
    """Decimal text, scientific notation accepted, not negative (bidding.md §2.1)."""
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation as error:
        raise ValueError("not a decimal number") from error
    if not number.is_finite() or number < 0:
        raise ValueError("must be a finite number, 0 or more")
    return number


def _storage_scale(value: object) -> object:
    """`0.00016,beta2=0.0002`: without a class it is for ephemeral storage; the last of two wins (bidding.md §2.1)."""
    if not isinstance(value, str):
        return value
    pairs = (part.rpartition("=") for part in value.split(",") if part.strip())
    return {name.strip() or "ephemeral": _scale(number) for name, _, number in pairs}


def _classes(value: object) -> object:
    """`beta2=500Gi,beta3=1Ti`: bytes a storage class may hand out."""
    if not isinstance(value, str):
        return value
    pairs = (part.partition("=") for part in value.split(",") if part.strip())
    return {name.strip(): _size(name.strip(), size) for name, _, size in pairs}


def _size(name: str, text: str) -> int:
    size = int(parse_quantity(text))
    if not name or size < 0:
        raise ValueError(f"{name}={text}: needs a class and a size of 0 or more")
    return size


def _each(parse: Callable[[str], str]) -> Callable[[object], object]:
    """Texts between commas, each as `parse` takes it."""

    def check(value: object) -> object:
        return tuple(parse(item) for item in _items(value)) if isinstance(value, str) else value  # type: ignore[attr-defined]

    return check


def _maybe_name(value: str) -> str:
    return parse_object_name(value.strip()) if value.strip() else ""


def _maybe_namespaced(value: str) -> str:
    namespace, slash, name = value.strip().partition("/")
    if not slash and not namespace:
        return ""
    if "." in parse_object_name(namespace) or not slash:
        raise ValueError("must be namespace/name")
    return f"{namespace}/{parse_object_name(name)}"


def _listen(value: object) -> object:
    match = _LISTEN.fullmatch(str(value))
    if match is None or int(match[2]) > 65535:
        raise ValueError("must be host:port, for example 0.0.0.0:8443")
    return value


def _listen_or_port(value: object) -> object:
    """`host:port`; a port alone is one of every address."""
    text = str(value)
    return _listen(f"0.0.0.0:{text}" if text.isascii() and text.isdecimal() else text)


def _acme_directory(value: str) -> str:
    if value and not (value.startswith("https://") and _is_address(value)):
        raise ValueError("must be https://host/path, without user and password")
    return value


def _nodes(value: object) -> object:
    """One or several between commas. CometBFT's own `tcp://` means plain HTTP here; a path prefix is kept."""
    parts = [part.strip() for part in str(value).split(",") if part.strip()]
    addresses = [part.rstrip("/").replace("tcp://", "http://", 1) for part in parts]
    if not addresses or not all(map(_is_address, addresses)):
        raise ValueError("must be http://host:port, https://host or tcp://host:port, without user and password")
    return ",".join(addresses)


def _is_address(text: str) -> bool:
    """Whether `text` is a URL with a host and, if it names one, a port that can be connected to."""
    try:
        parts = urlsplit(text)
        return bool(_ADDRESS.fullmatch(text) and parts.hostname) and parts.port != 0
    except ValueError:
        return False


Items = Annotated[tuple[str, ...], BeforeValidator(_items), Form("list: `a,b`")]
Duration = Annotated[float, BeforeValidator(_duration), Field(ge=0), Form("duration: `30s`, `5m`, `1h30m`")]
Hostname = Annotated[str, AfterValidator(parse_hostname), Form("hostname")]
ObjectName = Annotated[str, AfterValidator(parse_object_name), Form("Kubernetes name")]
CoinText = Annotated[Coin, BeforeValidator(_coin), Form("coin: `500000uakt`")]
Scale = Annotated[Decimal, BeforeValidator(_scale), Form("decimal: `0.004`, `4e-3`")]
Listen = Annotated[str, BeforeValidator(_listen), Form("address: `host:port`")]
ListenOrPort = Annotated[str, BeforeValidator(_listen_or_port), Form("address or port: `host:port`, `5002`")]
MaybeListen = Annotated[
    str, BeforeValidator(lambda value: _listen(value) if value not in ("", "off") else ""), Form("address: `host:port`")
]
NodeAddresses = Annotated[str, BeforeValidator(_nodes), Form("URLs: `https://host,http://host:26657`")]
StorageScales = Annotated[dict[str, Decimal], BeforeValidator(_storage_scale), Form("decimals: `0.00016,beta2=0.0002`")]
ClassSizes = Annotated[dict[str, int], BeforeValidator(_classes), Form("sizes: `beta2=500Gi,beta3=1Ti`")]


def _port_range(text: str) -> str:
    """`first-last`. Raises ValueError."""
    found = re.fullmatch(r"(\d{1,5})-(\d{1,5})", text, re.ASCII)
    if found is None or not 0 < int(found[1]) <= int(found[2]) <= 65535:
        raise ValueError(f"{text!r} is not a range of ports such as 30000-32767")
    return text


AddressRanges = Annotated[
    tuple[AddressRange, ...],
    BeforeValidator(_ranges),
    Form("ranges: `203.0.113.10-203.0.113.20,198.51.100.0/28`"),
]
NginxSize = Annotated[str, AfterValidator(parse_nginx_size), Form("size: `16k`, `1m`")]
Labels = Annotated[Items, BeforeValidator(_each(parse_label)), Form("labels: `key=value,key=value`")]
ObjectNames = Annotated[Items, BeforeValidator(_each(parse_object_name)), Form("Kubernetes names: `a,b`")]
Addresses = Annotated[Items, BeforeValidator(_each(parse_address)), Form("addresses: `a,b`")]
ClosedRanges = Annotated[Items, BeforeValidator(_each(parse_closed_range)), Form("IPv4 networks: `203.0.113.0/24`")]
HostnameList = Annotated[Items, BeforeValidator(_each(parse_hostname)), Form("hostnames: `a.com,b.com`")]
AcmeDirectory = Annotated[str, AfterValidator(_acme_directory), Form("URL: `https://host/path`")]
BlockedNames = Annotated[Items, BeforeValidator(_each(parse_blocked)), Form("hostnames: `a.com,.b.com`")]
Endpoints = Annotated[Items, BeforeValidator(_each(parse_endpoint)), Form("endpoints: `192.0.2.1:6443`")]
InventoryEndpoint = Annotated[
    str,
    BeforeValidator(lambda value: value if value in ("", "off") else _nodes(value)),
    Form("URL: `http://host:port`, or `off`"),
]
PortRange = Annotated[str, AfterValidator(_port_range), Form("ports: `30000-32767`")]
MaybeName = Annotated[str, AfterValidator(_maybe_name), Form("Kubernetes name")]
MaybeNamespaced = Annotated[str, AfterValidator(_maybe_namespaced), Form("Kubernetes name: `namespace/name`")]
