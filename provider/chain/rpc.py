"""Questions to the chain over one or several nodes: retried with jitter and a limit, moved to another node when one
fails, falls behind or serves another chain. Errors name the node, the method and the height (chain.md §7).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import structlog

from provider.chain.connection import AbciAnswer, Asked, Connection, QueryError, RpcError, TryLater
from provider.chain.nodes import LAG_BLOCKS, Node, NodeView, best, choose, parse_head
from provider.chain.pace import Pace
from provider.errors import ChainError, WrongChain
from provider.protocols import Clock
from provider.protocols.chain import Head
from provider.tls import ClientTls

__all__ = ["AbciAnswer", "Asked", "PartlyRefused", "QueryError", "RpcClient", "RpcError", "jittered"]

_log = structlog.get_logger(__name__)
_ATTEMPTS = 3
_MOST_ATTEMPTS = 6
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0
_SHORTEST_STATUS_SECONDS = 2.0
_T = TypeVar("_T")


def jittered(seconds: float) -> float:
    """Half to the whole of it, so that clients that failed together do not return together."""
    return seconds * random.uniform(0.5, 1)  # noqa: S311


class PartlyRefused(ChainError):
    """`refusal` is what one node said; others, which may have it, did not answer."""

    def __init__(self, refusal: RpcError) -> None:
        super().__init__(refusal.address, f"{refusal.problem}; not every other node answered")
        self.refusal = refusal


class RpcClient:
    """`addresses` (one, or several between commas) in the order in which they are preferred. `chain_id` empty: the
    first node's, then fixed. Sessions open at the first question; `close` it at the end.
    """

    def __init__(
        self, addresses: str, *, clock: Clock, timeout: float = 10.0, chain_id: str = "", tls: ClientTls | None = None
    ) -> None:
        found = dict.fromkeys(part.strip().rstrip("/") for part in addresses.split(",") if part.strip())
        self._nodes = [Node(Connection(address, timeout=timeout, tls=tls)) for address in found]
        self._current = self._nodes[0]
        self._clock = clock
        self._timeout = timeout
        self._attempts = min(_MOST_ATTEMPTS, max(_ATTEMPTS, len(self._nodes) + 1))
        self._floor = 0
        self._asked_around = 0.0
        self.chain_id = chain_id
        self.pace = Pace()

    async def close(self) -> None:
        for node in self._nodes:
            await node.connection.close()

    @property
    def address(self) -> str:
        """Of the node in use, fit for a log."""
        return self._current.connection.address

    @property
    def connection(self) -> Connection:
        """Of the node in use; for its websocket."""
        return self._current.connection

    def views(self) -> tuple[NodeView, ...]:
        """Every node with its health, in the order of preference."""
        return tuple(node.view(used=node is self._current) for node in self._nodes)

    def saw(self, height: int) -> None:
        """The follower handed on this height: what is well below it is old from now on, whoever says it."""
        self._floor = max(self._floor, height)

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The `result` object. Integer parameters must be given as text (recording, §8)."""
        return await self.on_one_node(lambda connection: connection.call(method, params))

    async def query(self, path: str, request: bytes, *, height: int = 0) -> AbciAnswer:
        """`abci_query` with a gRPC method path; `height` 0 means the latest, and an old latest state is refused."""

        async def ask(connection: Connection) -> AbciAnswer:
            floor = self._floor
            answer = await connection.query(path, request, height=height)
            if not height and 0 < answer.height < floor - LAG_BLOCKS:
                text = f"query {path}: it answers for height {answer.height}, we have seen {floor}: it is behind"
                raise ChainError(connection.address, text)
            return answer

        return await self.on_one_node(ask)

    async def on_one_node(self, ask: Callable[[Connection], Awaitable[_T]]) -> _T:
        """All that `ask` wants to know comes from one node; it is asked anew as a whole of another one that is well.

        A refusal (`RpcError`, `QueryError`) is an answer. Raises the last `ChainError` when the attempts are used up.
        """
        attempt = 0
        while True:
            attempt += 1
            node = choose(self._nodes, self._current, now=self._clock.monotonic())
            if node is not self._current:
                node.verified = False  # what it said long ago counts no more
            try:
                return await self._ask(self._use(node), ask)
            except (RpcError, QueryError):
                raise
            except ChainError as error:
                self._failed(node, error)
                if attempt >= self._attempts or (isinstance(error, WrongChain) and not self._awake()):
                    raise
                await self._pause(attempt, error)

    async def on_any_node(self, ask: Callable[[Connection], Awaitable[_T]]) -> _T:
        """As `on_one_node`, but what one node refuses (it pruned the height, it has no index) the others are asked
        for too, also those that rest. Raises the first refusal when all refuse, `PartlyRefused` when some are away.
        """
        try:
            return await self.on_one_node(ask)
        except RpcError as refusal:
            first, away = refusal, False
        for node in self._nodes:
            if node.connection.address != first.address:
                try:
                    return await self._ask(node, ask)
                except RpcError:
                    continue
                except ChainError as error:
                    away = True
                    self._failed(node, error)
        raise PartlyRefused(first) if away else first

    async def head(self) -> Head:
        """Where the node in use stands; when that fails, is behind or stands still, all are asked and the foremost is
        used. Raises `WrongChain` when every node serves another chain than ours.
        """
        attempt = 0
        while True:
            attempt += 1
            error = await self._look(self._current)
            if len(self._nodes) > 1 and (error or self._doubtful()):
                await self._ask_around()
            found = self._current.head
            if self._current.verified and found is not None:
                return found
            if error is None or (isinstance(error, WrongChain) and not all(node.wrong for node in self._nodes)):
                error = ChainError(self.address, self._current.problem)
            if attempt >= self._attempts or isinstance(error, WrongChain):
                raise error
            await self._pause(attempt, error)

    async def head_of(self, connection: Connection) -> Head:
        """What this node's status says, its chain checked."""
        node = next(one for one in self._nodes if one.connection is connection)
        limit = min(self._timeout, max(_SHORTEST_STATUS_SECONDS, 2 * self.pace.seconds))
        found = parse_head(connection.address, await connection.call("status", {}, seconds=limit))
        if self.chain_id and found.chain_id != self.chain_id:
            text = f"serves chain {found.chain_id!r}, ours is {self.chain_id!r}: set AP_NODE or AP_CHAIN_ID right"
            raise WrongChain(connection.address, text)
        self.chain_id = found.chain_id
        node.said(found, now=self._clock.monotonic())
        self.pace.saw(found.height, found.time)
        return found

    async def _ask(self, node: Node, ask: Callable[[Connection], Awaitable[_T]]) -> _T:
        if len(self._nodes) > 1 and not node.verified:
            found = await self.head_of(node.connection)
            if found.height < self._floor - LAG_BLOCKS:
                raise ChainError(node.connection.address, f"is at height {found.height}, we have seen {self._floor}")
        answer = await ask(node.connection)
        node.works()
        return answer

    async def _look(self, node: Node) -> ChainError | None:
        try:
            await self.head_of(node.connection)
        except ChainError as error:
            self._failed(node, error)
            return error
        return None

    async def _ask_around(self) -> None:
        self._asked_around = self._clock.monotonic()
        await asyncio.gather(*(self._look(node) for node in self._nodes if node is not self._current))
        found = best(self._nodes, self._current)
        if found is not None:
            self._use(found)

    def _doubtful(self) -> bool:
        """Catching up, behind what we have seen, or still for longer than blocks take: at most once that long."""
        node, now = self._current, self._clock.monotonic()
        still = now - max(node.risen_at, self._asked_around) > self.pace.silence
        head = node.head
        behind = head is None or head.catching_up or head.height < self._floor
        return still or (behind and now - self._asked_around > self.pace.seconds)

    def _use(self, node: Node) -> Node:
        if node is not self._current:
            _log.warning(
                "chain.node_switched", old=self.address, new=node.connection.address, why=self._current.problem
            )
            self._current = node
        return node

    def _failed(self, node: Node, error: ChainError) -> None:
        rest = error.seconds if isinstance(error, TryLater) else 0.0
        wrong = isinstance(error, WrongChain)
        node.failed(error.problem, now=self._clock.monotonic(), rest=rest, wrong=wrong)

    def _awake(self) -> bool:
        now = self._clock.monotonic()
        return any(node.rest_until <= now for node in self._nodes)

    async def _pause(self, attempt: int, error: ChainError) -> None:
        """Nobody waits while another node can be asked at once."""
        if len(self._nodes) > 1 and self._awake():
            return
        least = error.seconds if isinstance(error, TryLater) and len(self._nodes) == 1 else 0.0
        pause = max(least, jittered(_FIRST_PAUSE_SECONDS * 2**attempt))
        await self._clock.sleep(min(_LONGEST_PAUSE_SECONDS, pause))
