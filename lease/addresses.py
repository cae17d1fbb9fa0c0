"""Leased IPs: the key by which exposes of one tenant share an address, and the names made from the key
(kubernetes-objects.md §2.8).
"""

from __future__ import annotations

import hashlib
import re

from lease.ids import base32hex

__all__ = ["leased_ip_name", "pool_name", "sharing_key", "sharing_key_hash"]

_PLAIN = re.compile(r"[a-z0-9-]+")


def sharing_key(owner: str, endpoint: str) -> str:
    """`<owner>-ip-<endpoint>`. An endpoint with other characters than lower-case letters, digits and dashes is replaced
    by its hash of 24 characters.
    """
    if not _PLAIN.fullmatch(endpoint):
        endpoint = base32hex(hashlib.sha256(endpoint.encode()).digest()[:15])
    return f"{owner}-ip-{endpoint}"


def sharing_key_hash(key: str) -> str:
    """Base32hex of the SHA-224 of the key, 45 characters: short enough for a label value."""
    return base32hex(hashlib.sha224(key.encode()).digest())


def pool_name(key: str) -> str:
    """Name of the IPAddressPool and L2Advertisement that hold the key's one address (docs/architecture.md §5)."""
    return f"ip-{sharing_key_hash(key)}"


def leased_ip_name(key: str, *, proto: str, external_port: int) -> str:
    """Name of the ProviderLeasedIP object of one expose."""
    return f"{key}-{proto}-{external_port}".lower()
