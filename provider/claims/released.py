"""Hostnames that were released lately: for a time no other owner may take one (field problem J1).

DNS entries and clients still lead to the provider then, and whoever had the hostname would get them. One Secret beside
the claims remembers each release; it is written before the claim goes, so that a crash in between forgets nothing.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lease.hostnames import overlapping
from provider.protocols import Cluster
from provider.protocols.cluster import SECRET

__all__ = ["NOTHING_RELEASED", "Release", "cooling_text", "read_releases", "released_hostnames", "releases_object"]

_NAME = "released-hostnames"
_MOST = 5000
"""The newest releases are kept; more would not fit into a Secret."""


@dataclass(frozen=True, slots=True)
class Release:
    """`owner`: who had the hostname. `until`: Unix seconds at which another owner may take it."""

    owner: str
    until: float


NOTHING_RELEASED: Mapping[str, Release] = {}


async def released_hostnames(cluster: Cluster, *, namespace: str, now: float, cooldown_s: float) -> dict[str, Release]:
    """The releases whose time is not over; no request without a cool-down. Raises `ClusterError`."""
    if not cooldown_s:
        return {}
    found = read_releases(await cluster.get(SECRET, _NAME, namespace=namespace))
    # a clock that jumped back must not make the time longer
    kept = {host: Release(one.owner, min(one.until, now + cooldown_s)) for host, one in found.items()}
    return {host: one for host, one in kept.items() if one.until > now}


def read_releases(obj: Mapping[str, Any] | None) -> dict[str, Release]:
    """What the Secret holds. A Secret that cannot be read holds nothing: it must not keep hostnames from everybody."""
    try:
        text = base64.b64decode((obj or {})["data"]["releases"], validate=True)
        return {str(host): Release(str(owner), float(until)) for host, (owner, until) in json.loads(text).items()}
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error):
        return {}


def releases_object(
    before: Mapping[str, Release], hostnames: Iterable[str], owner: str, *, until: float, namespace: str
) -> dict[str, Any]:
    """The Secret to apply when `owner` releases hostnames."""
    releases = {**before, **{host: Release(owner, until) for host in hostnames}}
    newest = sorted(releases.items(), key=lambda item: item[1].until)[-_MOST:]
    text = json.dumps({host: [one.owner, one.until] for host, one in newest}, sort_keys=True)
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": {"name": _NAME, "namespace": namespace},
        "type": "Opaque",
        "data": {"releases": base64.b64encode(text.encode()).decode()},
    }


def cooling_text(hostname: str, owner: str, releases: Mapping[str, Release]) -> str:
    """Why `owner` may not take the hostname yet; empty when it may. A release of a name below a wildcard counts for the
    wildcard, and the other way round.
    """
    names = (hostname, *overlapping(hostname, releases))
    until = [releases[name].until for name in names if name in releases and releases[name].owner != owner]
    if not until:
        return ""
    moment = datetime.fromtimestamp(max(until), UTC)
    return f'host "{hostname}" was released by another account, and may be taken from {moment:%Y-%m-%d %H:%M:%S} UTC on'
