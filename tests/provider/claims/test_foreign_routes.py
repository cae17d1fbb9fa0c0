"""Routes of the shared edge that Lessor did not make, as far as the account may read them."""

from __future__ import annotations

from typing import Any

import pytest

from provider.claims.foreign_routes import ForeignRoutes, foreign_routes
from provider.errors import ClusterError
from provider.protocols.cluster import (
    GRPC_ROUTE,
    HTTP_ROUTE,
    INGRESS,
    INGRESS_ROUTE,
    INGRESS_ROUTE_TCP,
    TLS_ROUTES,
    Kind,
)
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


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (HTTP_ROUTE, 404),
        *(
            (kind, status)
            for kind in (GRPC_ROUTE, *TLS_ROUTES, INGRESS_ROUTE, INGRESS_ROUTE_TCP)
            for status in (404, 403)
        ),
    ],
)
async def test_a_kind_that_is_not_installed_or_that_an_older_account_may_not_read_has_no_routes(
    kind: Kind, status: int
) -> None:
    assert await foreign_routes(Refusing(kind, status)) == ForeignRoutes(frozenset({"a.example"}))


@pytest.mark.parametrize(
    ("kind", "status"),
    [(INGRESS, 403), (HTTP_ROUTE, 403), (GRPC_ROUTE, 500), (TLS_ROUTES[0], 500), (INGRESS_ROUTE, 500)],
)
async def test_routes_that_cannot_be_read_are_not_taken_for_none(kind: Kind, status: int) -> None:
    with pytest.raises(ClusterError):
        await foreign_routes(Refusing(kind, status))


@pytest.mark.parametrize("version", TLS_ROUTES, ids=lambda kind: kind.api_version)
async def test_tls_routes_are_read_in_the_version_that_the_cluster_serves(version: Kind) -> None:
    cluster = FakeCluster("tools")
    metadata, spec = {"name": "a", "namespace": "tools"}, {"hostnames": ["a.example", "*.b.example"]}
    cluster.put({"apiVersion": version.api_version, "kind": version.kind, "metadata": metadata, "spec": spec})
    served, cluster.list = cluster.list, None  # type: ignore[method-assign,assignment]

    async def only_this(kind: Kind, **selection: Any) -> list[dict[str, Any]]:
        if kind in TLS_ROUTES and kind != version:
            raise ClusterError(cluster.address, "no such kind", status=404)
        return await served(kind, **selection)

    cluster.list = only_this  # type: ignore[method-assign]
    assert await foreign_routes(cluster) == ForeignRoutes(frozenset({"a.example"}), frozenset({".b.example"}))


@pytest.mark.parametrize(
    "match",
    ["HostRegexp(`^.+$`)", "HostSNI(`*`)", "PathPrefix(`/Host(a)`)", "Host()", 'Header("Host", "a.example")', 7],
)
async def test_a_rule_of_traefik_that_names_no_host_takes_none(match: object) -> None:
    cluster = FakeCluster("tools")
    metadata, spec = {"name": "a", "namespace": "tools"}, {"routes": [{"match": match}]}
    cluster.put(
        {"apiVersion": INGRESS_ROUTE.api_version, "kind": INGRESS_ROUTE.kind, "metadata": metadata, "spec": spec}
    )
    assert not (await foreign_routes(cluster)).cover("a.example")
