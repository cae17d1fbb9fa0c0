"""The reason of a lease's trouble in what its tenant reads at the gateway."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from provider.gateway.config import GatewayConfig
from provider.gateway.errors import RequestError
from provider.gateway.lease_objects import LeaseObjects
from provider.gateway.lease_status import lease_status
from provider.gateway.rest.tenant_routes import lease_routes
from tests.provider.lifecycle.world import PROVIDER, a_group, a_lease

pytestmark = pytest.mark.virtual_time

WHY = "degraded: service web: 0 of 1 ready"


def test_a_lease_status_has_errors_only_when_something_is_wrong() -> None:
    healthy = lease_status(a_group(), LeaseObjects(manifest={}), public_hostname="", leased_ips=False)
    ailing = lease_status(a_group(), LeaseObjects(manifest={}, trouble=WHY), public_hostname="", leased_ips=False)
    assert "errors" not in healthy and ailing == healthy | {"errors": [WHY]}


@pytest.mark.parametrize(
    ("namespace", "words"), [(False, "kube: lease not found"), (True, "kube: no deployments for lease")]
)
@pytest.mark.parametrize("trouble", ["", "failed: volume data cannot change"])
async def test_a_first_version_that_failed_says_why_where_there_is_nothing_to_show(
    trouble: str, words: str, *, namespace: bool
) -> None:
    async def read(lease: object) -> LeaseObjects:
        return LeaseObjects(manifest={}, namespace=namespace, trouble=trouble)

    async def stored(lease: object) -> None:
        return None

    config = GatewayConfig(provider=PROVIDER, data_dir=Path("unused"))
    (route,) = (route for route in lease_routes(config, read, stored) if route.pattern.endswith("{oseq}/status"))
    with pytest.raises(RequestError) as refused:
        await route.handler(SimpleNamespace(lease=a_lease()))  # type: ignore[arg-type]
    assert (refused.value.status, refused.value.text) == (404, f"{words}: {trouble}" if trouble else words)
