"""The set of nodes with their health: what `/status` of each said last, who failed and rests, and who is used now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from provider.chain.connection import Connection
from provider.errors import ChainError
from provider.protocols.chain import Head

__all__ = ["LAG_BLOCKS", "Node", "NodeView", "best", "choose", "parse_head", "unix_seconds"]

LAG_BLOCKS = 3
"""Nodes get a block within a second of each other; one that is further behind than this many blocks is behind."""
_FIRST_REST_SECONDS = 1.0
_LONGEST_REST_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node as an operator sees it: `height` 0 when never reached, `pruned_below` 1 for one that has every block."""

    address: str
    used: bool
    height: int
    pruned_below: int
    catching_up: bool
    problem: str


@dataclass(slots=True)
class Node:
    """`verified`: since it last failed, its status said our chain and a height not behind ours. `wrong`: it serves
    another chain. `risen_at`: monotonic seconds when its height last rose.
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

    def said(self, head: Head, *, now: float) -> None:
        if head.height > self.height or self.head is None:
            self.risen_at = now
        self.head, self.verified = head, True
        self.works()

    def works(self) -> None:
        self.failures, self.rest_until, self.problem, self.wrong = 0, 0.0, "", False

    def failed(self, problem: str, *, now: float, rest: float = 0.0, wrong: bool = False) -> None:
        """It is left alone for a while that doubles each time: from one second to a minute, or as long as it says."""
        self.failures += 1
        self.verified, self.problem, self.wrong = False, problem, wrong
        pause = min(_LONGEST_REST_SECONDS, _FIRST_REST_SECONDS * 2 ** min(self.failures - 1, 10))
        self.rest_until = now + max(pause, rest)

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


def choose(nodes: Sequence[Node], current: Node, *, now: float) -> Node:
    """The node for the next question: the one in use unless it rests, else the first that does not rest, else the one
    that has rested longest of its time.
    """
    awake = [node for node in (current, *nodes) if node.rest_until <= now]
    return awake[0] if awake else min(nodes, key=lambda node: node.rest_until)


def best(nodes: Iterable[Node], current: Node) -> Node | None:
    """Of the nodes that just answered for our chain: one that has caught up and is at the front, the one in use
    before others, then the first named. None when none answered.
    """
    answered = [node for node in nodes if node.verified and node.head is not None]
    ready = [node for node in answered if node.head is not None and not node.head.catching_up] or answered
    front = max((node.height for node in ready), default=0)
    foremost = [node for node in ready if node.height >= front - 1]
    return current if current in foremost else next(iter(foremost), None)


def parse_head(address: str, status: dict[str, Any]) -> Head:
    """Of a `/status` answer. Raises `ChainError` for one that cannot be."""
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
        text = f"status: heights {found.earliest_height} to {found.height} cannot be"
        raise ChainError(address, text)
    return found


def unix_seconds(text: str) -> float:
    """RFC 3339 with up to nine decimals, of which Python reads six. Raises ValueError."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(whole + "+00:00").timestamp() + float(f"0.{fraction or 0}")
