"""Leased addresses: one pool holds one address, of the lease's owner, and a Service takes it from there alone."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from lease.addresses import pool_name, sharing_key_hash
from policies.facts import LeaseFacts
from policies.pods import at, listed
from policies.rules import (
    OWNER_LABEL,
    Check,
    Level,
    Manifest,
    ObjectProblem,
    Objects,
    Rule,
    RuleScope,
    Severity,
    fence,
    of_each,
)

__all__ = ["RULES", "leased_ranges"]

_KEY = "akash.network/sharing-key"
_SHARED_IP = ("metallb.universe.tf/allow-shared-ip", "metallb.io/allow-shared-ip")
_POOL = ("metallb.io/address-pool", "metallb.universe.tf/address-pool")
_CHOSEN = ("metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs", "metallb.io/ip-allocated-from-pool")
_POOL_FIELDS = frozenset({"addresses", "autoAssign"})
_ADVERTISEMENT_FIELDS = frozenset({"ipAddressPools"})


def _pool(manifest: Manifest) -> Iterator[str]:
    spec = at(manifest, "spec")
    if spec.get("autoAssign") is not False:
        yield "its address is given to any Service (autoAssign)"
    if strange := set(map(str, spec)) - _POOL_FIELDS:
        yield f"it has {', '.join(sorted(strange))}"
    if (network := _single(spec.get("addresses"))) is None or network.num_addresses != 1:
        yield f"it holds {str(spec.get('addresses'))[:100]} and not one address"
    yield from _key(manifest)


def _single(value: object) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """The only network of a pool; None when there are others, or none that can be read."""
    texts = listed(value)
    if len(texts) != 1:
        return None
    try:
        return ipaddress.ip_network(str(texts[0]))
    except ValueError:
        return None


def _key(manifest: Manifest) -> Iterator[str]:
    """Name, label and owner follow from the sharing key."""
    meta = at(manifest, "metadata")
    key = str(at(meta, "annotations").get(_KEY, ""))
    labels = at(meta, "labels")
    if meta.get("name") != pool_name(key) or labels.get("akash.network/sharing-key-hash") != sharing_key_hash(key):
        yield "its name and label are not those of its sharing key"
    if not key.startswith(f"{labels.get(OWNER_LABEL)}-ip-"):
        yield f"its sharing key is not of its owner {labels.get(OWNER_LABEL)}"


def _advertisement(manifest: Manifest) -> Iterator[str]:
    spec = at(manifest, "spec")
    if strange := set(map(str, spec)) - _ADVERTISEMENT_FIELDS:
        yield f"it has {', '.join(sorted(strange))}"
    if list(listed(spec.get("ipAddressPools"))) != [at(manifest, "metadata").get("name")]:
        yield "it announces other pools than its own"
    yield from _key(manifest)


def _own_address(objects: Objects) -> Iterator[ObjectProblem]:
    owners = set(objects.lease_namespaces.values())
    for shared in objects.of_kinds("IPAddressPool", "L2Advertisement") if owners else ():
        if at(shared, "metadata", "labels").get(OWNER_LABEL) not in owners:
            yield ObjectProblem(shared, "it is another owner's")
    for service in objects.of_kinds("Service"):
        yield from (ObjectProblem(service, text) for text in _leased(service, owners, objects.lease))
    if objects.lease is not None:
        yield from _rented(objects)


def _rented(objects: Objects) -> Iterator[ObjectProblem]:
    """The address of a pool is the one that was chosen for its key."""
    addresses = objects.lease.addresses if objects.lease else {}
    for pool in objects.of_kinds("IPAddressPool"):
        key = str(at(pool, "metadata", "annotations").get(_KEY, ""))
        network = _single(at(pool, "spec").get("addresses"))
        if network is None or str(network.network_address) != _plain(addresses.get(key, "")):
            yield ObjectProblem(pool, f"its address is not the one leased to {key[:200]}")


def _plain(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text


def _leased(service: Manifest, owners: set[str], lease: LeaseFacts | None) -> Iterator[str]:
    annotations = at(service, "metadata", "annotations")
    for name in _CHOSEN:
        if name in annotations and not (lease and lease.takes(name, str(annotations[name]))):
            yield f"annotation {name} chooses an address"
    if at(service, "spec").get("type") != "LoadBalancer":
        return
    keys = {str(annotations[name]) for name in _SHARED_IP if name in annotations}
    pools = {str(annotations[name]) for name in _POOL if name in annotations}
    foreign = lease.pools if lease else {}
    if len(keys) != 1 or pools != {foreign.get(key) or pool_name(key) for key in keys}:
        yield "it takes an address that is not of its sharing key's pool"
    elif owners and not any(key.startswith(f"{owner}-ip-") for key in keys for owner in owners):
        yield "its sharing key is another owner's"


def leased_ranges(ranges: Sequence[str]) -> Rule:
    """A rule against leased addresses outside `ranges` (networks, or `first-last`). Raises `ValueError`."""
    allowed = [network for text in ranges for network in _networks(text)]
    return Rule(
        id="address-in-range",
        severity=Severity.HIGH,
        level=Level.MANDATORY,
        reason="The operator leases no other addresses (addresses.ranges).",
        remedy="Choose an address of the ranges.",
        check=_within(allowed),
        scope=RuleScope.OBJECT,
        fence=False,
        topic="addresses",
    )


def _within(allowed: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> Check:
    def check(manifest: Manifest) -> Iterator[str]:
        for text in listed(at(manifest, "spec").get("addresses")):
            network = _single(text)
            if network is None or not any(
                one.version == network.version and network.subnet_of(one)  # type: ignore[arg-type]
                for one in allowed
            ):
                yield f"address {str(text)[:100]} is in no range of this provider"

    return of_each(check, "IPAddressPool")


def _networks(text: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    first, dash, last = text.partition("-")
    if not dash:
        return [ipaddress.ip_network(text.strip())]
    ends = ipaddress.ip_address(first.strip()), ipaddress.ip_address(last.strip())
    return list(ipaddress.summarize_address_range(*ends))


RULES = (
    fence(
        "one-address-a-pool",
        of_each(_pool, "IPAddressPool"),
        reason="A pool with more than its one address hands out what is another tenant's.",
        remedy="Name the pool after its sharing key, with one address and autoAssign false.",
    ),
    fence(
        "own-advertisement",
        of_each(_advertisement, "L2Advertisement"),
        reason="An announcement of another pool draws its traffic to other nodes.",
        remedy="Announce the pool of the same name.",
    ),
    fence(
        "own-address",
        _own_address,
        reason="An address belongs to the owner of its sharing key.",
        remedy="Take the pool of the lease's own sharing key, and choose no address by annotation.",
        scope=RuleScope.STACK,
    ),
)
