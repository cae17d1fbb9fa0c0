"""Which nodes of an earlier start in the same folder go."""

from __future__ import annotations

from devnet.controlplane.contents import NodeSpec, node_object, surplus_nodes

REAL = {"metadata": {"name": "real-1"}}
ITEMS = [REAL, *(node_object(NodeSpec(name)) for name in ("node-1", "node-2"))]


def test_beside_a_real_node_the_simulated_nodes_that_are_not_wanted_go() -> None:
    assert [each["metadata"]["name"] for each in surplus_nodes(ITEMS, {"node-1"}, real=True)] == ["node-2"]
    assert surplus_nodes(ITEMS, {"node-1", "node-2"}, real=True) == []


def test_without_a_real_node_that_of_an_earlier_start_goes_too() -> None:
    """Nothing runs its pods any more, and the scheduler would wait for it."""
    assert [each["metadata"]["name"] for each in surplus_nodes(ITEMS, {"node-1"}, real=False)] == ["real-1", "node-2"]
