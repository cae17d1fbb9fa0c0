"""The calls over the socket: what a gateway process asks the provider for, as a table at the provider's end and as the
ports of `Gateway` at the other.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from pydantic import TypeAdapter

from lease.groups import GroupSpec
from lease.ids import LeaseId
from provider.claims.hostnames import HostnameClaim
from provider.claims.leased_ips import AddressClaim
from provider.errors import ClusterError
from provider.gateway.errors import RequestError
from provider.gateway.intake import Intake
from provider.gateway.link.client import ProviderLink
from provider.gateway.link.server import Call
from provider.gateway.provider_status import ProviderStatus
from provider.gateway.rest.migration_routes import Migrations
from provider.gateway.rest.public_routes import Metrics, ReadStatus
from provider.gateway.verdict import Screen, Verdict

__all__ = ["LinkedIntake", "LinkedMigrations", "gateway_calls", "linked_metrics", "linked_screen", "linked_status"]

_SHORT_S, _MANIFEST_S, _SCREEN_S = 10.0, 130.0, 40.0
"""How long an answer is awaited, restarts of the provider included."""
_STATUS_S, _KEPT_S = 2.0, 60.0
"""How long `/status` waits for a provider that restarts, and how long it shows what was known before."""
_Now: TypeAlias = Callable[[], float]


@cache
def _adapter(of: Any) -> TypeAdapter[Any]:
    return TypeAdapter(of)


def _plain(value: Any, of: Any) -> Any:
    return _adapter(of).dump_python(value, mode="json")


def gateway_calls(
    *, intake: Intake, migrations: Migrations, status: ReadStatus, screen: Screen, metrics: Metrics
) -> Mapping[str, Call]:
    """The calls that the provider answers from its parts."""

    async def require_lease(given: Mapping[str, Any]) -> None:
        await intake.require_lease(given["owner"], given["dseq"])

    async def manifest(given: Mapping[str, Any]) -> None:
        await intake.accept_manifest(given["owner"], given["dseq"], b64decode(given["body"]))

    async def migrate_hosts(given: Mapping[str, Any]) -> None:
        lease, claims = _lease_and_claims(given, HostnameClaim)
        await migrations.migrate_hosts(lease, claims)

    async def migrate_ports(given: Mapping[str, Any]) -> None:
        lease, claims = _lease_and_claims(given, AddressClaim)
        await migrations.migrate_ports(lease, claims)

    async def current_status(_: Mapping[str, Any]) -> Any:
        return _plain(await status(), ProviderStatus)

    async def screened(given: Mapping[str, Any]) -> Any:
        return _plain(await screen(_adapter(GroupSpec).validate_python(given["group"])), Verdict)

    async def scraped(given: Mapping[str, Any]) -> Any:
        body, content_type = await metrics(given["accept"])
        return [body.decode(), content_type]

    return {
        "require_lease": require_lease,
        "manifest": manifest,
        "migrate_hosts": migrate_hosts,
        "migrate_ports": migrate_ports,
        "status": current_status,
        "screen": screened,
        "metrics": scraped,
    }


def _lease_and_claims(given: Mapping[str, Any], of: Any) -> tuple[LeaseId, list[Any]]:
    lease: LeaseId = _adapter(LeaseId).validate_python(given["lease"])
    claims: list[Any] = _adapter(list[of]).validate_python(given["claims"])
    return lease, claims


class LinkedIntake:
    """The provider's intake. A manifest that it has accepted is in the cluster before 200 is answered here."""

    def __init__(self, link: ProviderLink) -> None:
        self._link = link

    async def require_lease(self, owner: str, dseq: int) -> None:
        await self._link.call("require_lease", {"owner": owner, "dseq": dseq}, seconds=_MANIFEST_S)

    async def accept_manifest(self, owner: str, dseq: int, body: bytes) -> None:
        given = {"owner": owner, "dseq": dseq, "body": b64encode(body).decode()}
        await self._link.call("manifest", given, seconds=_MANIFEST_S)


class LinkedMigrations:
    """The provider's claims."""

    def __init__(self, link: ProviderLink) -> None:
        self._link = link

    async def migrate_hosts(self, lease: LeaseId, hosts: Sequence[HostnameClaim]) -> None:
        given = {"lease": _plain(lease, LeaseId), "claims": _plain(list(hosts), list[HostnameClaim])}
        await self._link.call("migrate_hosts", given, seconds=_SHORT_S)

    async def migrate_ports(self, lease: LeaseId, ports: Sequence[AddressClaim]) -> None:
        given = {"lease": _plain(lease, LeaseId), "claims": _plain(list(ports), list[AddressClaim])}
        await self._link.call("migrate_ports", given, seconds=_SHORT_S)


def linked_status(link: ProviderLink, *, now: _Now) -> ReadStatus:
    """The provider's status. While the provider restarts it is the one of before, for a minute at most. `now`:
    monotonic seconds.
    """
    kept: list[tuple[float, ProviderStatus]] = []

    async def read() -> ProviderStatus:
        try:
            found: ProviderStatus = _adapter(ProviderStatus).validate_python(
                await link.call("status", {}, seconds=_STATUS_S)
            )
        except RequestError:
            if kept and now() - kept[0][0] <= _KEPT_S:
                return kept[0][1]
            raise ClusterError("", "the provider does not answer") from None
        kept[:] = [(now(), found)]
        return found

    return read


def linked_screen(link: ProviderLink) -> Screen:
    async def screen(spec: GroupSpec) -> Verdict:
        given = {"group": _plain(spec, GroupSpec)}
        found: Verdict = _adapter(Verdict).validate_python(await link.call("screen", given, seconds=_SCREEN_S))
        return found

    return screen


def linked_metrics(link: ProviderLink) -> Metrics:
    async def metrics(accept: str) -> tuple[bytes, str]:
        body, content_type = await link.call("metrics", {"accept": accept}, seconds=_SHORT_S)
        return body.encode(), content_type

    return metrics
