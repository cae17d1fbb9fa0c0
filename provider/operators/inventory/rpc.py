"""The gRPC side of the inventory operator: `ClusterRPC` and `NodeRPC` of `akash.inventory.v1` (operators.md §2.10).

The Go provider's operator serves `ClusterRPC` only. A call of `NodeRPC` names its node in the metadata `node`; a name
may be missing if there is one node only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
from akash.inventory.v1 import service_pb2  # noqa: F401  reflection answers from the pool of descriptors
from akash.inventory.v1 import types_pb2 as pb
from google.protobuf.empty_pb2 import Empty
from grpc_reflection.v1alpha import reflection

from provider.operators.inventory.documents import cluster_message, node_message
from provider.operators.inventory.publication import CLUSTER, Publication
from provider.operators.inventory.state import ClusterState, NodeState
from provider.protocols import Bus

__all__ = ["inventory_rpc"]

_CLUSTER, _NODE = "akash.inventory.v1.ClusterRPC", "akash.inventory.v1.NodeRPC"
_OPTIONS = (("grpc.http2.min_ping_interval_without_data_ms", 30_000), ("grpc.http2.max_ping_strikes", 2))


def inventory_rpc(publication: Publication, bus: Bus) -> grpc.aio.Server:
    """The server, without a port and not started."""
    service = _Service(publication, bus)
    server = grpc.aio.server(options=_OPTIONS)
    methods = {
        _CLUSTER: {"QueryCluster": _unary(service.query_cluster), "StreamCluster": _stream(service.stream_cluster)},
        _NODE: {"QueryNode": _unary(service.query_node), "StreamNode": _stream(service.stream_node)},
    }
    handlers = (grpc.method_handlers_generic_handler(name, found) for name, found in methods.items())
    server.add_generic_rpc_handlers(tuple(handlers))
    reflection.enable_server_reflection((*methods, reflection.SERVICE_NAME), server)
    return server


class _Service:
    def __init__(self, publication: Publication, bus: Bus) -> None:
        self._publication = publication
        self._bus = bus

    async def query_cluster(self, _: Any, context: Any) -> Any:
        state = self._publication.state
        if state is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the cluster was not read yet; try again")
        return cluster_message(state or ClusterState())

    async def stream_cluster(self, _: Any, context: Any) -> AsyncIterator[Any]:
        """The state, if there is one, then every change of it."""
        async for state in self._states():
            yield cluster_message(state)

    async def query_node(self, _: Any, context: Any) -> Any:
        node = _chosen(self._publication.state, _name(context))
        if node is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such node; name it in the metadata `node`")
        return pb.Node() if node is None else node_message(node)

    async def stream_node(self, _: Any, context: Any) -> AsyncIterator[Any]:
        """The node, if it is offered, then every change of it. While it is not offered nothing is sent."""
        name, before = _name(context), None
        async for state in self._states():
            node = _chosen(state, name)
            if node is not None and node != before:
                yield node_message(node)
            before = node

    async def _states(self) -> AsyncIterator[ClusterState]:
        async with self._bus.subscribe(CLUSTER) as changes:
            async for state in changes:
                if isinstance(state, ClusterState):
                    yield state


def _name(context: Any) -> str | None:
    return next((value for key, value in context.invocation_metadata() or () if key == "node"), None)


def _chosen(state: ClusterState | None, name: str | None) -> NodeState | None:
    found = [node for node in (state.nodes if state else ()) if name in (None, node.name)]
    return found[0] if len(found) == 1 else None


def _unary(method: Any) -> Any:
    return grpc.unary_unary_rpc_method_handler(method, Empty.FromString, _bytes)


def _stream(method: Any) -> Any:
    return grpc.unary_stream_rpc_method_handler(method, Empty.FromString, _bytes)


def _bytes(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data
