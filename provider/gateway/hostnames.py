"""Which hostnames a tenant may use here (sdl-and-manifest.md §5.5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from provider.gateway.errors import RequestError

__all__ = ["check_hostnames"]


def check_hostnames(hosts: Iterable[str], owner: str, *, blocked: Sequence[str], holders: Mapping[str, str]) -> None:
    """Raise `RequestError` for a host that is blocked or held by another owner.

    `hosts` are lower case; `holders` says who holds which. Blocking goes first, as in Go, so nobody learns of a holder.
    """
    for host in hosts:
        problem = _blocked(host, blocked)
        if not problem and holders.get(host, owner) != owner:
            problem = f'host "{host}" in use'
        if problem:
            raise RequestError(422, f"hostname not allowed: {problem}")


def _blocked(host: str, blocked: Sequence[str]) -> str:
    for entry in blocked:
        if entry.startswith(".") and (host == entry[1:] or host.endswith(entry)):
            return f'domain "{host}" is blocked by this provider'
        if host == entry:
            return f'"{host}" is blocked by this provider'
    return ""
