"""Hostnames with a wildcard: which text is one, which other hostnames it covers, and the names of its objects.

`*.example.com` covers every name below `example.com`, at any depth: the edges differ in how many labels the `*` stands
for (one for Ingress and Traefik, any number for NGINX and the Gateway API). A name of its own goes before a wildcard.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from lease.ids import base32hex
from lease.kubernetes_names import is_subdomain, is_subdomain_of_labels

__all__ = ["covering_wildcards", "covers", "is_route_host", "is_wildcard", "overlapping", "route_name"]

_WILDCARD = "*."
_LENGTH = 253


def is_wildcard(hostname: str) -> bool:
    """Whether the text is `*.` and a domain of at least two labels, the last one no number; 253 characters in all."""
    domain = hostname.removeprefix(_WILDCARD)
    if domain == hostname or len(hostname) > _LENGTH or "." not in domain:
        return False
    return is_subdomain_of_labels(domain) and not domain.rpartition(".")[2].isdigit()


def is_route_host(hostname: str) -> bool:
    """Whether a route may have this host: an RFC 1123 subdomain or a wildcard."""
    return is_subdomain(hostname) or is_wildcard(hostname)


def covers(wildcard: str, hostname: str) -> bool:
    """Whether `wildcard` covers `hostname`, a name or a wildcard further down; both in lower case."""
    return wildcard.startswith(_WILDCARD) and wildcard != hostname and hostname.endswith(wildcard[1:])


def covering_wildcards(hostname: str) -> Iterator[str]:
    """The wildcards that cover `hostname`, the nearest first."""
    domain = hostname.removeprefix(_WILDCARD)
    while "." in domain:
        domain = domain.partition(".")[2]
        yield f"{_WILDCARD}{domain}"


def overlapping(hostname: str, others: Iterable[str]) -> Iterator[str]:
    """Those of `others` that cover `hostname` or that it covers; never `hostname` itself. A mapping or set of `others`
    is searched completely for a wildcard only.
    """
    if hostname.startswith(_WILDCARD):
        yield from (other for other in others if covers(hostname, other))
    known = others if isinstance(others, (dict, set, frozenset)) else set(others)
    yield from (wildcard for wildcard in covering_wildcards(hostname) if wildcard in known)


def route_name(hostname: str) -> str:
    """The name of the ProviderHost and of the route of a hostname: the hostname itself.

    An object cannot be named after a wildcard; its name is `wildcard-` and the base32hex of the SHA-224 of the domain,
    one label, which is no hostname that a tenant can claim.
    """
    if not hostname.startswith(_WILDCARD):
        return hostname
    return f"wildcard-{base32hex(hashlib.sha224(hostname[2:].encode()).digest())}"
