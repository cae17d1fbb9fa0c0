"""Parsers for amounts and names in settings and in Kubernetes objects: durations, coins, byte sizes, address ranges.
Every parser raises ValueError for an invalid text.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from lease.kubernetes_names import is_hostname, is_label_name, is_subdomain

__all__ = [
    "AddressRange",
    "Coin",
    "mask_addresses",
    "parse_address",
    "parse_address_range",
    "parse_blocked",
    "parse_closed_range",
    "parse_coin",
    "parse_duration",
    "parse_endpoint",
    "parse_hostname",
    "parse_label",
    "parse_nginx_size",
    "parse_object_name",
    "parse_quantity",
    "usable_range",
]

_IPV4 = 4
_USER = re.compile(r"//\S*@")
_NAMED_KEY = re.compile(r"(password|token|key)=[^&\s]*")
_KEY = re.compile(r"(?<=[^/]/|[^=]=)(?=[^/?&,\s]*\d)[^/?&,\s]{20,}")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)", re.ASCII)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_COIN = re.compile(r"(\d{1,30}(?:\.\d{1,18})?)([a-zA-Z][a-zA-Z0-9/:._-]{2,127})", re.ASCII)
_QUANTITY = re.compile(
    r"([+-]?\d{1,30}(?:\.\d{0,18})?|[+-]?\.\d{1,18})(?:[eE]([+-]?\d{1,2})|([A-Za-z]{0,2}))", re.ASCII
)
_SMALL = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1)}
_DECIMAL = {suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)}
_BINARY = {suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_IPV6 = re.compile(r"[0-9a-fA-F:]{1,253}", re.ASCII)
_NGINX_SIZE = re.compile(r"[1-9][0-9]{0,8}[kKmM]?", re.ASCII)
_SUFFIX = _SMALL | _DECIMAL | _BINARY
_DROPPED = (0, 255)
"""The last bytes of IPv4 addresses whose packets some clients and routers drop."""


@dataclass(frozen=True, slots=True)
class Coin:
    """An amount in a denom; only gas prices have fractions."""

    denom: str
    amount: Decimal

    def __str__(self) -> str:
        return f"{self.amount:f}{self.denom}"


@dataclass(frozen=True, slots=True)
class AddressRange:
    """The first and the last address, of one family. `usable_only`: without the IPv4 addresses that end in 0 or 255,
    which some clients and routers drop (MetalLB's `avoidBuggyIPs`, operators.md §3.7).
    """

    first: ipaddress.IPv4Address | ipaddress.IPv6Address
    last: ipaddress.IPv4Address | ipaddress.IPv6Address
    usable_only: bool = False

    @property
    def size(self) -> int:
        return self._count(int(self.first), int(self.last))

    def __contains__(self, address: object) -> bool:
        return (
            isinstance(address, ipaddress.IPv4Address | ipaddress.IPv6Address)
            and address.version == self.first.version
            and int(self.first) <= int(address) <= int(self.last)
            and not (self._sparse and int(address) & 0xFF in _DROPPED)
        )

    def common(self, other: AddressRange) -> int:
        """How many addresses are in both."""
        if self.first.version != other.first.version:
            return 0
        counts = self if self.usable_only else other
        return counts._count(max(int(self.first), int(other.first)), min(int(self.last), int(other.last)))

    @property
    def _sparse(self) -> bool:
        return self.usable_only and self.first.version == _IPV4

    def _count(self, low: int, high: int) -> int:
        """The number of addresses of this range's kind from `low` to `high`."""
        if low > high:
            return 0
        return _usable_below(high + 1) - _usable_below(low) if self._sparse else high - low + 1

    def at(self, index: int) -> str:
        """The address `index` places after the first."""
        return str(self.first + index)


def parse_duration(text: str) -> float:
    """Seconds of a Go duration ("5m", "1h30m", "500ms", "0"), the form in the Go provider's settings."""
    if text.strip() == "0":
        return 0.0
    parts = _DURATION.findall(text.strip())
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        raise ValueError("not a duration; examples: 30s, 5m, 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def parse_coin(text: str) -> Coin:
    """A coin: `500000uakt`, `0.025uakt`."""
    match = _COIN.fullmatch(text.strip())
    if match is None:
        raise ValueError("not a coin; examples: 500000uakt, 0.025uakt")
    return Coin(denom=match[2], amount=Decimal(match[1]))


def parse_quantity(text: str | int) -> Decimal:
    """A Kubernetes quantity ("100m", "1Gi", "2e3", "1.5") as an exact decimal."""
    return _quantity(str(text))


@lru_cache(maxsize=4096)
def _quantity(text: str) -> Decimal:
    """The pods of a large cluster have few different requests."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or (match[3] is not None and match[3] not in _SUFFIX):
        raise ValueError(f"{text[:40]!r} is not a Kubernetes quantity; examples: 500m, 10Gi")
    try:
        number = Decimal(match[1])
        return number.scaleb(int(match[2])) if match[2] else number * _SUFFIX[match[3] or ""]
    except InvalidOperation as error:
        raise ValueError(f"{text[:40]!r} is not a Kubernetes quantity") from error


def parse_address_range(text: str) -> AddressRange:
    """A range: `10.0.0.10-10.0.0.20`, `10.0.0.0/28` (every address of it) or one address."""
    first, dash, last = text.strip().partition("-")
    if not dash and "/" in first:
        network = ipaddress.ip_network(first, strict=False)
        return AddressRange(network[0], network[-1])
    low = ipaddress.ip_address(first.strip())
    high = ipaddress.ip_address(last.strip()) if dash else low
    if low.version != high.version or int(high) < int(low):
        raise ValueError("the last address must not be below the first, and both must be of one family")
    return AddressRange(low, high)


def mask_addresses(text: str) -> str:
    """The text of a setting without the passwords of its addresses, and without the parts of their paths and queries
    that look like a key: providers of nodes give each customer an address whose path is the key.
    """
    shown = _NAMED_KEY.sub(r"\1=***", _USER.sub("//***@", text))
    return _KEY.sub("***", shown) if "://" in shown else shown


def parse_hostname(text: str) -> str:
    """A DNS name or an IP address, unchanged; the empty text is allowed."""
    if text and not is_hostname(text) and not _IPV6.fullmatch(text):
        raise ValueError("not a hostname; letters, digits, - and . are allowed, for example provider.example.com")
    return text


def parse_object_name(text: str) -> str:
    """The name of a namespace or class of Kubernetes, unchanged."""
    if not is_subdomain(text):
        raise ValueError("not a Kubernetes name; lower-case letters, digits, - and . are allowed")
    return text


def parse_endpoint(text: str) -> str:
    """`192.0.2.1:6443` or `[2001:db8::1]:6443`, unchanged."""
    host, _, port = text.rpartition(":")
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        raise ValueError(f"{text[:60]!r} is not address:port with an IP address") from None
    if not (port.isascii() and port.isdigit() and 0 < int(port) <= 65535):
        raise ValueError(f"{text[:60]!r}: the port must be 1 to 65535")
    return text


def parse_address(text: str) -> str:
    """An IP address, unchanged."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise ValueError(f"{text[:60]!r} is not an IP address") from None
    return text


def parse_blocked(text: str) -> str:
    """A blocked hostname, unchanged: `a.example` for one name, `.example` for a domain. Any other text would block
    nothing without notice.
    """
    try:
        parse_hostname(text.removeprefix("."))
    except ValueError:
        raise ValueError(f"{text[:60]!r} blocks nothing; write a.example for a name or .example for a domain") from None
    return text


def usable_range(one: AddressRange) -> AddressRange | None:
    """The range without the addresses that are dropped on their way; None when nothing is left."""
    found = replace(one, usable_only=True)
    return found if found.size else None


def _usable_below(end: int) -> int:
    """How many IPv4 addresses below `end` end neither in 0 nor in 255."""
    blocks, rest = divmod(end, 0x100)
    return blocks * (0x100 - len(_DROPPED)) + max(rest - 1, 0)


def parse_closed_range(text: str) -> str:
    """An IPv4 network other than 0.0.0.0/0, unchanged. All of IPv6 is closed to tenants anyway."""
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise ValueError(f"{text[:60]!r} is not an IPv4 network such as 203.0.113.0/24 ({error})") from None
    if not network.prefixlen:
        raise ValueError(f"{text[:60]!r} would close all addresses")
    return text


def parse_label(text: str) -> str:
    """A label and its value, unchanged: `app.kubernetes.io/name=traefik`."""
    key, equals, value = text.partition("=")
    prefix, slash, name = key.rpartition("/")
    named = is_label_name(name) and (not slash or is_subdomain(prefix))
    if not (equals and named and (not value or is_label_name(value))):
        raise ValueError(f"{text[:60]!r} is not a label such as app.kubernetes.io/name=traefik")
    return text


def parse_nginx_size(text: str) -> str:
    """A size in NGINX's form, unchanged; the empty text sets none."""
    if text and not _NGINX_SIZE.fullmatch(text):
        raise ValueError("not a size for NGINX: digits with an optional k or m, for example 16k")
    return text
