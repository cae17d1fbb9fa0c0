"""Which nodes of an earlier start in the same folder go."""

from __future__ import annotations

from devnet.controlplane.contents import NodeSpec, node_object, surplus_nodes


def test_simulated_nodes_that_are_not_wanted_go_and_every_other_node_stays() -> None:
    real = {"metadata": {"name": "real-1"}}
    items = [real, *(node_object(NodeSpec(name)) for name in ("node-1", "node-2"))]
    assert [each["metadata"]["name"] for each in surplus_nodes(items, {"node-1"})] == ["node-2"]
    assert surplus_nodes(items, {"node-1", "node-2"}) == []
