"""The claims of a token: their form on the wire and the rules for them (gateway.md §2.4)."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from provider.gateway.errors import AuthError

__all__ = [
    "ANONYMOUS",
    "Claims",
    "DeploymentPermission",
    "Leases",
    "Permission",
    "Scope",
    "certificate_claims",
    "check_claims",
    "invalid_token",
    "parse_claims",
]


class Scope(StrEnum):
    """What a token may be limited to; there are exactly these ten scopes."""

    SEND_MANIFEST = "send-manifest"
    GET_MANIFEST = "get-manifest"
    LOGS = "logs"
    SHELL = "shell"
    EVENTS = "events"
    STATUS = "status"
    RESTART = "restart"
    HOSTNAME_MIGRATE = "hostname-migrate"
    IP_MIGRATE = "ip-migrate"
    ATTESTATION = "attestation"


_SCOPES = frozenset(scope.value for scope in Scope)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def _date(value: Any) -> int | None:
    """Whole seconds of a JSON number or of a string that holds one. Raises ValueError for anything else."""
    if isinstance(value, str) and len(value) < 64 and _NUMBER.fullmatch(value):
        value = float(value)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return int(value)
    raise ValueError("not a number")


def _zero_for_null(zero: Any) -> BeforeValidator:
    return BeforeValidator(lambda value: zero if value is None else value)


_Text = Annotated[str, _zero_for_null("")]
_Uint32 = Annotated[int, _zero_for_null(0), Field(ge=0, lt=1 << 32)]
_Uint64 = Annotated[int, _zero_for_null(0), Field(ge=0, lt=1 << 64)]
_Date = Annotated[int | None, BeforeValidator(_date)]


class _Wire(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", defer_build=True)


class DeploymentPermission(_Wire):
    """One deployment in a granular permission; gseq and oseq 0 mean any."""

    dseq: _Uint64 = 0
    gseq: _Uint32 = 0
    oseq: _Uint32 = 0
    scope: list[_Text] | None = None
    services: list[_Text] | None = None


class Permission(_Wire):
    """What a granular token allows at one provider."""

    provider: _Text = ""
    access: _Text = ""
    scope: list[_Text] | None = None
    deployments: list[DeploymentPermission] | None = None


class Leases(_Wire):
    """`access` is full, scoped or granular in valid claims."""

    access: _Text = ""
    scope: list[_Text] | None = None
    permissions: list[Permission] | None = None


class Claims(_Wire):
    """Dates are Unix seconds, None where the token has none."""

    iss: _Text = ""
    iat: _Date = None
    nbf: _Date = None
    exp: _Date = None
    version: _Text = ""
    leases: Annotated[Leases, _zero_for_null({})] = Leases()
    sub: _Text = ""
    jti: _Text = ""


ANONYMOUS = Claims(leases=Leases(access="none"))
"""The claims of a caller without credentials: public routes only."""


def certificate_claims(account: str) -> Claims:
    """The claims of a client certificate: full access to the leases of its account, never less (gateway.md §2.2)."""
    return Claims(iss=account, version="v1", leases=Leases(access="full"))


def invalid_token() -> AuthError:
    """The refusal of an invalid token, whatever the reason."""
    return AuthError(401, "JWT is invalid")


def parse_claims(payload: bytes) -> Claims:
    """The claims in a token's payload. Raises `AuthError` 401 also for a wrong JSON type, as recorded (auth.jsonl)."""
    try:
        return Claims.model_validate_json(payload)
    except (ValidationError, ValueError, RecursionError) as error:
        raise invalid_token() from error


def check_claims(claims: Claims, now: float, *, leeway: float = 0.0) -> None:
    """Raise `AuthError` unless every rule holds at `now` (Unix seconds): 401 for a token that begins more than `leeway`
    seconds later, 400 for any other rule.
    """
    if not (claims.version == "v1" and _leases_hold(claims.leases)):
        raise _broken_rule()
    if claims.iat is None or claims.nbf is None or claims.exp is None or now >= claims.exp:
        raise _broken_rule()
    if now + leeway < claims.nbf:
        begins, here = _utc(claims.nbf), _utc(math.floor(now))
        raise AuthError(401, f"JWT is not valid before {begins}; this provider's clock shows {here}")


def _broken_rule() -> AuthError:
    return AuthError(400, "JWT has invalid claims")


def _utc(seconds: int) -> str:
    """A time in RFC 3339; the plain number of seconds where a calendar has no such year."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(seconds)


def _leases_hold(leases: Leases) -> bool:
    match leases.access:
        case "full":
            return not leases.permissions and not leases.scope
        case "scoped":
            return leases.permissions is None and _scopes_hold(leases.scope)
        case "granular":
            permissions = leases.permissions or []
            named = [permission.provider for permission in permissions]
            return bool(named) and _unique(named) and all(map(_permission_holds, permissions))
        case _:
            return False


def _permission_holds(permission: Permission) -> bool:
    if not permission.provider:
        return False
    match permission.access:
        case "full":
            return not permission.deployments and not permission.scope
        case "scoped":
            return permission.deployments is None and _scopes_hold(permission.scope)
        case "granular":
            deployments = permission.deployments or []
            return permission.scope is None and bool(deployments) and all(map(_deployment_holds, deployments))
        case _:
            return False


def _deployment_holds(entry: DeploymentPermission) -> bool:
    numbers_hold = entry.dseq != 0 and (entry.gseq != 0 or entry.oseq == 0)
    services = entry.services or []
    return numbers_hold and _scopes_hold(entry.scope) and bool(services) and _unique(services)


def _scopes_hold(scopes: list[str] | None) -> bool:
    return bool(scopes) and _unique(scopes or []) and _SCOPES.issuperset(scopes or [])


def _unique(values: Sequence[Hashable]) -> bool:
    return len(set(values)) == len(values)
