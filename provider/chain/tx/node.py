"""What sending needs of a node, or of several behind one address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias

from provider.chain.rpc import AbciAnswer
from provider.protocols.chain import Head

__all__ = ["AskHead", "Node"]

AskHead: TypeAlias = Callable[[], Awaitable[Head]]


class Node(Protocol):
    """CometBFT's RPC. Both calls are bounded in time and raise `ChainError`, or one of its kinds."""

    @property
    def address(self) -> str: ...

    async def call(self, method: str, **params: Any) -> dict[str, Any]: ...

    async def query(self, path: str, request: bytes, *, height: int = 0) -> AbciAnswer: ...
