"""The RPC nodes with their health: the last `/status` of each, which failed and rest, and which one is in use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from provider.chain.connection import Connection
from provider.errors import ChainError
from provider.protocols.chain import Head
from provider.waits import GrowingPause

__all__ = ["LAG_BLOCKS", "NodeView", "RpcNode", "best", "choose", "contradicts", "parse_head", "unix_seconds"]

LAG_BLOCKS = 3
"""Nodes get a block within a second of each other; a node that lags by more than this many blocks is behind."""
_LEAP_BLOCKS = 1000
_LEAP_RATE = 10
"""Blocks that a node may be ahead of another: so many, and so many for each second since the other's newest block. A
chain makes less than one a second.
"""
_REST = GrowingPause(first=1.0, longest=60.0)


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node as shown to the operator: `height` 0 when never reached, `pruned_below` 1 when it has every block."""

    address: str
    used: bool
    height: int
    pruned_below: int
    catching_up: bool
    problem: str


@dataclass(slots=True)
class RpcNode:
    """One node and its health. `verified`: since its last failure, its status named the expected chain and a height
    that is not behind. `wrong`: it serves another chain. `risen_at`: monotonic seconds when its height last rose.
    """

    connection: Connection
    head: Head | None = None
    verified: bool = False
    wrong: bool = False
    failures: int = 0
    rest_until: float = 0.0
    risen_at: float = 0.0
    problem: str = ""

    @property
    def height(self) -> int:
        return self.head.height if self.head else 0

    def record_head(self, head: Head, *, now: float) -> None:
        if head.height > self.height or self.head is None:
            self.risen_at = now
        self.head, self.verified = head, True
        self.record_success()

    def record_success(self) -> None:
        self.failures, self.rest_until, self.problem, self.wrong = 0, 0.0, "", False

    def record_failure(self, problem: str, *, now: float, rest: float = 0.0, wrong: bool = False) -> None:
        """Rest the node: from one second, doubled at each failure, to a minute; at least `rest` seconds."""
        self.failures += 1
        self.verified, self.problem, self.wrong = False, problem, wrong
        self.rest_until = now + max(_REST.after(self.failures), rest)

    def view(self, *, used: bool) -> NodeView:
        head = self.head
        return NodeView(
            address=self.connection.address,
            used=used,
            height=self.height,
            pruned_below=head.earliest_height if head else 1,
            catching_up=bool(head and head.catching_up),
            problem=self.problem,
        )


def choose(nodes: Sequence[RpcNode], current: RpcNode, *, now: float) -> RpcNode:
    """The node for the next request: the current one unless it rests, else the first that does not rest, else the one
    whose rest ends first.
    """
    awake = [node for node in (current, *nodes) if node.rest_until <= now]
    return awake[0] if awake else min(nodes, key=lambda node: node.rest_until)


def best(nodes: Iterable[RpcNode], current: RpcNode) -> RpcNode | None:
    """Of the verified nodes, one that has caught up and is at the greatest height (or one block below): the current
    node before others, then the first in order of preference. None when no node is verified.
    """
    answered = [node for node in nodes if node.verified and node.head is not None]
    ready = [node for node in answered if node.head is not None and not node.head.catching_up] or answered
    front = max((node.height for node in ready), default=0)
    foremost = [node for node in ready if node.height >= front - 1]
    return current if current in foremost else next(iter(foremost), None)


def contradicts(head: Head, height: int, *, now: float) -> bool:
    """Whether the chain cannot have reached `height` at `now` (Unix seconds) if `head` is a true head."""
    return height > head.height + _LEAP_BLOCKS + _LEAP_RATE * max(0.0, now - head.time)


def parse_head(address: str, status: dict[str, Any]) -> Head:
    """The head in a `/status` answer. Raises `ChainError` when the answer is malformed or implausible."""
    try:
        sync = status["sync_info"]
        found = Head(
            chain_id=str(status["node_info"]["network"]),
            height=int(sync["latest_block_height"]),
            time=unix_seconds(str(sync["latest_block_time"])),
            catching_up=bool(sync["catching_up"]),
            earliest_height=int(sync.get("earliest_block_height") or 1),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ChainError(address, f"status: the answer cannot be read: {error!r}") from error
    if not (0 <= found.height < 2**63 and found.earliest_height <= max(1, found.height)):
        text = f"status: heights {found.earliest_height} to {found.height} are not plausible"
        raise ChainError(address, text)
    return found


def unix_seconds(text: str) -> float:
    """Unix seconds of an RFC 3339 time with up to nine decimals, of which Python reads six. Raises ValueError."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(whole + "+00:00").timestamp() + float(f"0.{fraction or 0}")
