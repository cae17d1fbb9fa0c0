"""Routes of the shared edge that Lessor did not make, as far as the account may read them."""

from __future__ import annotations

from typing import Any

import pytest

from provider.claims.foreign_routes import ForeignRoutes, foreign_routes
from provider.errors import ClusterError
from provider.protocols.cluster import GRPC_ROUTE, HTTP_ROUTE, INGRESS, Kind
from tests.world.cluster import FakeCluster


class Refusing(FakeCluster):
    """A cluster that refuses the list of one kind."""

    def __init__(self, kind: Kind, status: int) -> None:
        super().__init__("tools")
        self.refused, self.status = kind, status
        meta = {"name": "a", "namespace": "tools"}
        spec = {"rules": [{"host": "a.example"}]}
        self.put({"apiVersion": INGRESS.api_version, "kind": INGRESS.kind, "metadata": meta, "spec": spec})

    async def list(self, kind: Kind, **selection: Any) -> list[dict[str, Any]]:
        if kind == self.refused:
            raise ClusterError(self.address, "refused", status=self.status)
        return await super().list(kind, **selection)


@pytest.mark.parametrize(("kind", "status"), [(HTTP_ROUTE, 404), (GRPC_ROUTE, 404), (GRPC_ROUTE, 403)])
async def test_a_kind_that_is_not_installed_or_that_an_older_account_may_not_read_has_no_routes(
    kind: Kind, status: int
) -> None:
    assert await foreign_routes(Refusing(kind, status)) == ForeignRoutes(frozenset({"a.example"}))


@pytest.mark.parametrize(("kind", "status"), [(INGRESS, 403), (HTTP_ROUTE, 403), (GRPC_ROUTE, 500)])
async def test_routes_that_cannot_be_read_are_not_taken_for_none(kind: Kind, status: int) -> None:
    with pytest.raises(ClusterError):
        await foreign_routes(Refusing(kind, status))
