"""Where an operator in a pod listens: on the ports that its own container names (operators.md §1.3)."""

from __future__ import annotations

from typing import Any

import pytest

from provider.cli.operator_claims import SharedOptions
from provider.operators.process import OperatorOptions
from tests.world.cluster import FakeCluster, unreachable

PORTS = [{"name": "rest", "containerPort": 9080}, {"name": "grpc", "containerPort": 9081}]


def a_pod(*containers: dict[str, Any]) -> dict[str, Any]:
    meta = {"name": "me", "namespace": "akash-services"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": list(containers)}}


async def ports(
    *containers: dict[str, Any], pod: str = "me", rest: int | None = None, grpc: int | None = None, away: bool = False
) -> tuple[int, int]:
    cluster = FakeCluster("akash-services")
    cluster.put(a_pod(*containers))
    if away:
        cluster.before = _away
    shared = SharedOptions(OperatorOptions(), rest, grpc, pod, "akash-services")
    known = await shared.known(cluster, "operator-ip")
    return known.rest_port, known.grpc_port


def _away(operation: str, kind: str, name: str) -> None:
    raise unreachable()


async def test_the_ports_are_those_of_the_own_container() -> None:
    other = {"name": "sidecar", "ports": [{"name": "rest", "containerPort": 1}]}
    assert await ports(other, {"name": "operator-ip", "ports": PORTS}) == (9080, 9081)
    assert await ports({"name": "operator-ip", "ports": PORTS[:1]}) == (9080, 8081)


async def test_a_port_that_is_given_holds() -> None:
    assert await ports({"name": "operator-ip", "ports": PORTS}, rest=7000, grpc=0) == (7000, 0)


@pytest.mark.parametrize("pod", ["", "somebody-else"])
async def test_without_an_own_pod_the_usual_ports_hold(pod: str) -> None:
    assert await ports({"name": "operator-ip", "ports": PORTS}, pod=pod) == (8080, 8081)


async def test_an_own_pod_that_cannot_be_read_stops_no_operator() -> None:
    assert await ports({"name": "operator-ip", "ports": PORTS}, away=True) == (8080, 8081)
