"""The view of the chain that a query reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from devnet.chain.app import TxResult
from devnet.chain.blocks import Block, BlockStore
from devnet.chain.genesis import Genesis
from devnet.chain.store import Reader

__all__ = ["Node", "Query"]


class Node(Protocol):
    """The part of the node that the SDK's services use in addition to the state."""

    @property
    def blocks(self) -> BlockStore: ...

    def simulate(self, tx: bytes) -> TxResult: ...

    def broadcast(self, tx: bytes) -> TxResult: ...

    @property
    def catching_up(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Query:
    """The state at `height`, and the node."""

    state: Reader
    height: int
    genesis: Genesis
    node: Node

    def block(self, height: int) -> Block | None:
        return self.node.blocks.get(height)

    def extra(self) -> dict[str, Any]:
        """The initial gRPC metadata of an answer."""
        return {"x-cosmos-block-height": str(self.height)}
