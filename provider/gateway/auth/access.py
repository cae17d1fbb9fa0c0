"""Access: what the bearer of checked claims may do at this provider (gateway.md §2.6).

The owner of a target comes from the credentials and its provider is always this one, so a tenant can name only his own
leases.
"""

from __future__ import annotations

from dataclasses import dataclass

from lease.ids import DeploymentId, LeaseId
from provider.gateway.auth.claims import Claims, DeploymentPermission, Permission, Scope
from provider.gateway.errors import AuthError

__all__ = ["Target", "allowed_services", "require_access", "unauthorized"]

Target = LeaseId | DeploymentId | None
"""What a route addresses: a lease, a deployment, or (None) only the owner."""


@dataclass(frozen=True, slots=True)
class _Here:
    """The claims, and the token's permission for this provider; None when its access is not granular."""

    claims: Claims
    permission: Permission | None

    @property
    def entries(self) -> list[DeploymentPermission]:
        return (self.permission.deployments if self.permission else None) or []


def require_access(claims: Claims, provider: str, target: Target, scope: Scope | None) -> None:
    """Raise `AuthError` 401 unless the claims allow this provider, the target and the scope."""
    here = _at_provider(claims, provider)
    if here is None or not (_target_allowed(here, target) and _scope_allowed(here, target, scope)):
        raise unauthorized()


def allowed_services(claims: Claims, provider: str, target: Target, scope: Scope | None) -> frozenset[str] | None:
    """The services of the target that the claims are limited to in this scope; None for all."""
    here = _at_provider(claims, provider)
    if here is None or target is None or here.permission is None or here.permission.access != "granular":
        return None
    entries = (entry for entry in here.entries if _matches(entry, target))
    named = (entry.services or [] for entry in entries if scope is None or scope in (entry.scope or []))
    return frozenset().union(*named)


def unauthorized() -> AuthError:
    """The refusal for callers without access, known or not: 401 as the Go provider's, never 403."""
    return AuthError(401, "unauthorized access")


def _at_provider(claims: Claims, provider: str) -> _Here | None:
    match claims.leases.access:
        case "full" | "scoped":
            return _Here(claims, None)
        case "granular":
            named = (item for item in claims.leases.permissions or [] if item.provider == provider)
            permission = next(named, None)
            return None if permission is None else _Here(claims, permission)
        case _:
            return None


def _target_allowed(here: _Here, target: Target) -> bool:
    if target is None or here.permission is None or here.permission.access != "granular":
        return True
    return any(_matches(entry, target) for entry in here.entries)


def _scope_allowed(here: _Here, target: Target, scope: Scope | None) -> bool:
    leases, permission = here.claims.leases, here.permission
    if scope is None or leases.access == "full":
        return True
    if permission is None:
        return scope in (leases.scope or [])
    match permission.access:
        case "full":
            return True
        case "scoped":
            return scope in (permission.scope or [])
        case _:
            return any(scope in (entry.scope or []) for entry in here.entries if _matches(entry, target))


def _matches(entry: DeploymentPermission, target: Target) -> bool:
    match target:
        case None:
            return True
        case LeaseId():
            same_group = entry.gseq in (0, target.gseq) and entry.oseq in (0, target.oseq)
            return entry.dseq == target.dseq and same_group
        case DeploymentId():
            return entry.dseq == target.dseq
