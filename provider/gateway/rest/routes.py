"""The rows of the route table, and the search for the row of a path (gateway.md §3.2; recordings, notfound)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from aiohttp import web

from lease.ids import DeploymentId, LeaseId
from provider.gateway.auth.access import Target, unauthorized
from provider.gateway.auth.claims import Claims, Scope
from provider.gateway.rest.paths import parse_uint

__all__ = ["Call", "Handler", "Match", "Route", "find_route", "target_of"]


@dataclass(frozen=True, slots=True)
class Call:
    """A request that passed every access check. `target`: what the path names, under the caller's own address.
    `services`: those of the target that the credentials are limited to, None for all.
    """

    request: web.BaseRequest
    claims: Claims
    target: Target
    values: Mapping[str, str]
    services: frozenset[str] | None = None

    @property
    def owner(self) -> str:
        return self.claims.iss

    @property
    def query(self) -> str:
        """The raw query."""
        return self.request.raw_path.partition("?")[2]

    def narrowed(self, services: frozenset[str] | None) -> frozenset[str] | None:
        """The requested services, None for all, within those of the credentials. Raises `AuthError` 401 for a named
        service that the credentials do not allow.
        """
        if self.services is None or services is None:
            return services if self.services is None else self.services
        if not services <= self.services:
            raise unauthorized()
        return services

    def require_service(self, service: str) -> None:
        """Raise `AuthError` 401 unless the credentials allow the service."""
        self.narrowed(frozenset((service,)))

    @property
    def lease(self) -> LeaseId:
        """The lease in the path; for routes below /lease only."""
        assert isinstance(self.target, LeaseId)  # noqa: S101
        return self.target

    @property
    def deployment(self) -> DeploymentId:
        """The deployment in the path; for routes below /deployment only."""
        assert isinstance(self.target, DeploymentId)  # noqa: S101
        return self.target


Handler: TypeAlias = Callable[[Call], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    """`methods`: empty for any. Every route that is not `public` needs credentials with the `scope`. `check` is called
    with the raw query between the checks of the target and of the scope, as in Go.
    """

    pattern: str
    handler: Handler
    methods: frozenset[str] = frozenset({"GET"})
    public: bool = False
    scope: Scope | None = None
    check: Callable[[str], object] | None = None

    def allows(self, method: str) -> bool:
        return not self.methods or method in self.methods

    @property
    def wrong_method(self) -> int:
        """The status for a wrong method. Below /lease it is 404: Go's nested router does not report the
        method there.
        """
        return 404 if self.pattern.startswith("/lease/") else 405


@dataclass(frozen=True, slots=True)
class Match:
    route: Route
    values: Mapping[str, str]


def find_route(routes: Iterable[Route], path: str) -> Match | None:
    """The row whose pattern matches a clean, decoded path; None when no row does."""
    for route in routes:
        values = _match(route.pattern.split("/"), path.split("/"))
        if values is not None:
            return Match(route, values)
    return None


def target_of(values: Mapping[str, str], owner: str, provider: str) -> Target:
    """What the path names. Raises `RequestError` 400 for a malformed number."""
    if "dseq" not in values:
        return None
    dseq = parse_uint(values["dseq"], 64)
    if "gseq" not in values:
        return DeploymentId(owner, dseq)
    return LeaseId(owner, dseq, parse_uint(values["gseq"], 32), parse_uint(values["oseq"], 32), provider)


def _match(pattern: list[str], path: list[str]) -> dict[str, str] | None:
    if len(pattern) != len(path):
        return None
    values: dict[str, str] = {}
    for expected, part in zip(pattern, path, strict=True):
        if expected.startswith("{") and part:
            values[expected[1:-1]] = part
        elif expected != part:
            return None
    return values
