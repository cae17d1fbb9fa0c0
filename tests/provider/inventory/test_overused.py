"""Which nodes have pods that request more than the node has, and by how much (field problem C5)."""

from __future__ import annotations

import pytest

from provider.inventory.capacity import Capacity, Card
from provider.inventory.overuse import overused
from provider.inventory.snapshot import Inventory, Node, ScheduledPod

MI = 2**20
FULL = Capacity(1000, 100 * MI, 10 * MI, 2)


def pod(number: int, requests: Capacity, *, node: str = "n0", gpu: int = 0) -> ScheduledPod:
    return ScheduledPod("x", f"p{number}", node, requests, "nvidia" if gpu else "", "", gpu)


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        ([], None),
        ([pod(0, FULL, gpu=1)], None),
        ([pod(0, Capacity(1001, 0, 0, 1))], "1 milli-CPU"),
        ([pod(0, Capacity(0, 100 * MI + 1, 12 * MI, 1))], "1 MiB memory, 2 MiB ephemeral storage"),
        ([pod(number, Capacity(400, 0, 0, 1)) for number in range(3)], "200 milli-CPU, 1 pods"),
        ([pod(0, Capacity(0, 0, 0, 1), gpu=3)], "2 nvidia GPUs"),
        ([pod(0, Capacity(10**9, 0, 0, 1), node="cordoned")], None),
    ],
)
def test_what_a_node_lacks_for_its_pods_is_told_and_a_full_one_lacks_nothing(
    pods: list[ScheduledPod], words: str | None
) -> None:
    nodes = (Node("n0", FULL, (Card("nvidia", "t4"), Card("amd", "mi100"))), Node("n1", FULL))
    assert dict(overused(Inventory(nodes=nodes, pods=tuple(pods)))) == ({"n0": words} if words else {})
