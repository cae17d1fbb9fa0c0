"""RPC requests over one or several nodes: retried with jitter and a limit, and sent to another node when one fails,
falls behind or serves another chain. Errors name the node, the method and the height (chain.md §7).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import structlog

from provider.chain.connection import AbciAnswer, Connection, QueryError, RpcError, TryLater
from provider.chain.nodes import LAG_BLOCKS, NodeView, RpcNode, best, choose, contradicts, parse_head
from provider.chain.pace import Pace
from provider.errors import ChainError, WrongChain
from provider.protocols import Clock
from provider.protocols.chain import Head
from provider.tls import ClientTls
from provider.waits import GrowingPause, jittered

__all__ = ["AbciAnswer", "PartlyRefused", "QueryError", "RpcClient", "RpcError"]

_log = structlog.get_logger(__name__)
_ATTEMPTS = 3
_MAX_ATTEMPTS = 6
_PAUSE = GrowingPause(first=0.4)
_MAX_PAUSE_S = 5.0
_MIN_STATUS_S = 2.0
_T = TypeVar("_T")


class PartlyRefused(ChainError):
    """One node refused with `refusal`; others, which may have the data, did not answer."""

    def __init__(self, refusal: RpcError) -> None:
        super().__init__(refusal.address, f"{refusal.problem}; not every other node answered")
        self.refusal = refusal


class RpcClient:
    """`addresses`: one, or several between commas, in order of preference. `chain_id` empty: taken from the first node
    that answers, then fixed. Sessions open at the first request; `close` it at the end.
    """

    def __init__(
        self, addresses: str, *, clock: Clock, timeout: float = 10.0, chain_id: str = "", tls: ClientTls | None = None
    ) -> None:
        found = dict.fromkeys(part.strip().rstrip("/") for part in addresses.split(",") if part.strip())
        self._nodes = [RpcNode(Connection(address, timeout=timeout, tls=tls)) for address in found]
        self._current = self._nodes[0]
        self._clock = clock
        self._timeout = timeout
        self._attempts = min(_MAX_ATTEMPTS, max(_ATTEMPTS, len(self._nodes) + 1))
        self._floor = 0
        self._checked_all_at = 0.0
        self.chain_id = chain_id
        self.pace = Pace()

    async def close(self) -> None:
        for node in self._nodes:
            await node.connection.close()

    @property
    def address(self) -> str:
        """The address of the node in use, without secrets."""
        return self._current.connection.address

    @property
    def connection(self) -> Connection:
        """The connection to the node in use, for its websocket."""
        return self._current.connection

    def views(self) -> tuple[NodeView, ...]:
        """Every node with its health, in the order of preference."""
        return tuple(node.view(used=node is self._current) for node in self._nodes)

    def raise_floor(self, height: int) -> None:
        """Treat answers for heights well below `height` as old from now on; the follower has delivered this height."""
        self._floor = max(self._floor, height)

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The `result` object. Integer parameters must be given as text (recording, §8)."""
        return await self.on_one_node(lambda connection: connection.call(method, params))

    async def query(self, path: str, request: bytes, *, height: int = 0) -> AbciAnswer:
        """`abci_query` with a gRPC method path. `height` 0: the latest state; an answer from an old state
        is refused.
        """

        async def ask(connection: Connection) -> AbciAnswer:
            floor = self._floor
            answer = await connection.query(path, request, height=height)
            if not height and 0 < answer.height < floor - LAG_BLOCKS:
                text = f"query {path}: the answer is for height {answer.height}, behind the known height {floor}"
                raise ChainError(connection.address, text)
            return answer

        return await self.on_one_node(ask)

    async def on_one_node(self, ask: Callable[[Connection], Awaitable[_T]]) -> _T:
        """The result of `ask` with one healthy node; when it fails, all of `ask` is repeated with another node.

        A refusal (`RpcError`, `QueryError`) is an answer. Raises the last `ChainError` when the attempts are used up.
        """
        attempt = 0
        while True:
            attempt += 1
            node = choose(self._nodes, self._current, now=self._clock.monotonic())
            if node is not self._current:
                node.verified = False  # its last status is too old to count
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
        """As `on_one_node`, but after a refusal (a pruned height, no index) the other nodes are tried too, also those
        that rest. Raises the first refusal when all refuse, `PartlyRefused` when some did not answer.
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

    async def on_each_node(self, ask: Callable[[Connection], Awaitable[_T]]) -> list[_T]:
        """The result of `ask` with each node that answers, in the order of preference; nodes that rest are left out."""
        now = self._clock.monotonic()
        awake = [node for node in self._nodes if node.rest_until <= now]
        found = await asyncio.gather(*(self._ask_or_not(node, ask) for node in awake))
        return [answer for answers in found for answer in answers]

    async def _ask_or_not(self, node: RpcNode, ask: Callable[[Connection], Awaitable[_T]]) -> tuple[_T, ...]:
        """The result of `ask`, in a tuple that is empty when the node refuses or does not answer."""
        try:
            return (await self._ask(node, ask),)
        except (RpcError, QueryError):
            return ()
        except ChainError as error:
            self._failed(node, error)
            return ()

    async def contradicting(self, height: int) -> str:
        """The address of a node by whose head the chain cannot have reached `height` yet; empty when there is none."""

        async def ask(connection: Connection) -> tuple[str, Head]:
            return connection.address, await self.head_of(connection)

        heads = await self.on_each_node(ask)
        now = self._clock.now()
        return next((address for address, head in heads if contradicts(head, height, now=now)), "")

    @property
    def several(self) -> bool:
        """Whether more than one node is named."""
        return len(self._nodes) > 1

    async def head(self) -> Head:
        """The head of the node in use. When that node fails, is behind or stands still, all nodes are checked and the
        foremost is used from then on. Raises `WrongChain` when every node serves another chain than the expected one.
        """
        attempt = 0
        while True:
            attempt += 1
            error = await self._check(self._current)
            if len(self._nodes) > 1 and (error or self._doubtful()):
                await self._check_all()
            found = self._current.head
            if self._current.verified and found is not None:
                return found
            if error is None or (isinstance(error, WrongChain) and not all(node.wrong for node in self._nodes)):
                error = ChainError(self.address, self._current.problem)
            if attempt >= self._attempts or isinstance(error, WrongChain):
                raise error
            await self._pause(attempt, error)

    async def head_of(self, connection: Connection) -> Head:
        """The head in this node's status. Raises `WrongChain` when the node serves another chain."""
        node = next(one for one in self._nodes if one.connection is connection)
        limit = min(self._timeout, max(_MIN_STATUS_S, 2 * self.pace.seconds))
        found = parse_head(connection.address, await connection.call("status", {}, seconds=limit))
        if self.chain_id and found.chain_id != self.chain_id:
            text = f"serves chain {found.chain_id!r}, expected {self.chain_id!r}: correct AP_NODE or AP_CHAIN_ID"
            raise WrongChain(connection.address, text)
        if found.height <= 0:
            raise ChainError(connection.address, "status: the node is at height 0: it has no block yet")
        self.chain_id = found.chain_id
        node.record_head(found, now=self._clock.monotonic())
        self.pace.observe(found.height, found.time)
        return found

    async def _ask(self, node: RpcNode, ask: Callable[[Connection], Awaitable[_T]]) -> _T:
        if len(self._nodes) > 1 and not node.verified:
            found = await self.head_of(node.connection)
            if found.height < self._floor - LAG_BLOCKS:
                raise ChainError(
                    node.connection.address, f"is at height {found.height}, behind the known height {self._floor}"
                )
        answer = await ask(node.connection)
        node.record_success()
        return answer

    async def _check(self, node: RpcNode) -> ChainError | None:
        try:
            await self.head_of(node.connection)
        except ChainError as error:
            self._failed(node, error)
            return error
        return None

    async def _check_all(self) -> None:
        self._checked_all_at = self._clock.monotonic()
        await asyncio.gather(*(self._check(node) for node in self._nodes if node is not self._current))
        found = best(self._nodes, self._current)
        if found is not None:
            self._use(found)

    def _doubtful(self) -> bool:
        """Whether the node in use is catching up, behind, or silent for longer than blocks take; at most once in that
        time.
        """
        node, now = self._current, self._clock.monotonic()
        still = now - max(node.risen_at, self._checked_all_at) > self.pace.silence
        head = node.head
        behind = head is None or head.catching_up or head.height < self._floor
        return still or (behind and now - self._checked_all_at > self.pace.seconds)

    def _use(self, node: RpcNode) -> RpcNode:
        if node is not self._current:
            _log.warning(
                "chain.node_switched", old=self.address, new=node.connection.address, reason=self._current.problem
            )
            self._current = node
        return node

    def _failed(self, node: RpcNode, error: ChainError) -> None:
        rest = error.seconds if isinstance(error, TryLater) else 0.0
        wrong = isinstance(error, WrongChain)
        node.record_failure(error.problem, now=self._clock.monotonic(), rest=rest, wrong=wrong)

    def _awake(self) -> bool:
        now = self._clock.monotonic()
        return any(node.rest_until <= now for node in self._nodes)

    async def _pause(self, attempt: int, error: ChainError) -> None:
        """Wait before the next attempt, unless another node can be used at once."""
        if len(self._nodes) > 1 and self._awake():
            return
        least = error.seconds if isinstance(error, TryLater) and len(self._nodes) == 1 else 0.0
        pause = max(least, jittered(_PAUSE.after(attempt)))
        await self._clock.sleep(min(_MAX_PAUSE_S, pause))
