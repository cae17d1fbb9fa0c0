"""A running chain: node, RPC and gRPC on loopback ports, and the block timer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from devnet.chain.app import TxResult
from devnet.chain.blocks import Block
from devnet.chain.faults import Faults
from devnet.chain.genesis import Genesis, devnet_genesis
from devnet.chain.grpc_server import GrpcServer
from devnet.chain.node import Node
from devnet.chain.rpc import RpcServer

__all__ = ["SimulatedChain"]

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class SimulatedChain:
    """Made by `start`. A `restart` keeps its arguments and ports."""

    def __init__(self, genesis: Genesis, *, block_seconds: float | None, host: str, folder: Path | None) -> None:
        self._genesis = genesis
        self._block_seconds = block_seconds
        self._host = host
        self._ports = (0, 0)
        self.node = Node(genesis, folder)
        self._timer: asyncio.Task[None] | None = None

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        genesis: Genesis | None = None,
        *,
        block_seconds: float | None = 0.25,
        host: str = "127.0.0.1",
        port: int = 0,
        grpc_port: int = 0,
        folder: Path | None = None,
    ) -> AsyncIterator[SimulatedChain]:
        """Start a chain with its first block. Port 0 selects a free one.

        With `block_seconds` None only `produce` makes blocks. With a `folder` the blocks are stored there and run again
        at the next start.
        """
        if host not in _LOOPBACK:
            raise ValueError(f"the simulated chain listens on loopback only, not on {host!r}")
        chain = cls(genesis or devnet_genesis(), block_seconds=block_seconds, host=host, folder=folder)
        try:
            await chain._serve(port, grpc_port)
            if chain.height == 0:
                await chain.produce()
            yield chain
        finally:
            await chain._shut()
            chain.node.close()

    async def _serve(self, port: int, grpc_port: int) -> None:
        self._rpc, self._grpc = RpcServer(self.node), GrpcServer(self.node)
        await self._rpc.start(self._host, port)
        await self._grpc.start(self._host, grpc_port)
        self._ports = (self._rpc.port, self._grpc.port)
        if self._block_seconds is not None:
            self._timer = asyncio.create_task(self._tick(self._block_seconds))

    async def _shut(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            with suppress(asyncio.CancelledError):
                await self._timer
            self._timer = None
        self.faults.paused = False
        await self._rpc.stop()
        await self._grpc.stop()
        self.node.listeners.clear()

    async def _tick(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            if not self.faults.halted:
                await self.node.produce()

    @property
    def chain_id(self) -> str:
        return self._genesis.chain_id

    @property
    def rpc_address(self) -> str:
        """`http://127.0.0.1:<port>`; the websocket is below it at `/websocket`."""
        return f"http://{self._host}:{self._ports[0]}"

    @property
    def grpc_address(self) -> str:
        """`127.0.0.1:<port>`, without TLS; cosmpy needs the prefix `grpc+http://`."""
        return f"{self._host}:{self._ports[1]}"

    @property
    def height(self) -> int:
        return self.node.height

    @property
    def faults(self) -> Faults:
        """The switches that make the node fail."""
        return self.node.faults

    async def produce(self, blocks: int = 1) -> Block:
        """Make blocks now, independent of the timer; returns the last one."""
        for _ in range(blocks):
            block = await self.node.produce()
        return block

    async def wait_for_height(self, height: int) -> None:
        await self.node.wait_for_height(height)

    async def wait_blocks(self, blocks: int = 1) -> None:
        """Wait for so many more blocks."""
        await self.node.wait_for_height(self.height + blocks)

    def submit(self, tx: bytes) -> TxResult:
        """Pass a signed transaction to the mempool without a transport."""
        return self.node.broadcast(tx)

    async def drop_websockets(self) -> int:
        """Close every websocket connection abruptly; returns their number."""
        return await self._rpc.hub.drop()

    def prune(self, below: int) -> None:
        """Remove the blocks below a height, and refuse queries there."""
        self.node.blocks.prune(below)

    async def restart(self, *, down_seconds: float = 0.0) -> None:
        """Stop for a while, then listen on the same ports with the same state; all subscriptions end."""
        await self._shut()
        await asyncio.sleep(down_seconds)
        await self._serve(*self._ports)
