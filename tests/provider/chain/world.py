"""Clients of a simulated chain, a tenant's messages, and a small node with scripted answers."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

from aiohttp import web

from devnet.chain import TEST_MNEMONIC
from lease.groups import GroupSpec, Requirements, ResourceUnit
from lease.ids import DeploymentId, OrderId
from lease.resources import Attribute, Endpoint, EndpointKind, Price, Resources, Volume
from provider.chain.comet import CometChain
from provider.chain.keys import SigningKey, key_from_mnemonic
from provider.protocols.clock import SystemClock
from provider.settings import Settings

TENANT, PROVIDER, PROVIDER2, BROKE = 1, 2, 6, 11
ATTRIBUTES = (Attribute("region", "us-west"), Attribute("tier", "community"))


def signing_key(index: int) -> SigningKey:
    return key_from_mnemonic(TEST_MNEMONIC, index=index)


@asynccontextmanager
async def client(
    address: str, *, index: int | None = None, chain_id: str = "", **settings: Any
) -> AsyncIterator[CometChain]:
    key = signing_key(index) if index is not None else None
    values = {"node": address, "rpc_timeout": 5, "poll_interval": 0.1, **settings}
    async with CometChain(Settings(**values), clock=SystemClock(), key=key, chain_id=chain_id) as chain:
        yield chain


def spec(price: str = "100", *, count: int = 1, name: str = "westcoast") -> GroupSpec:
    endpoints = (Endpoint(EndpointKind.SHARED_HTTP), Endpoint(EndpointKind.LEASED_IP, 1))
    storage = (Volume("default", 512 * 2**20),)
    resources = Resources(1, 100, 128 * 2**20, storage, endpoints=endpoints)
    return GroupSpec(
        name, Requirements(attributes=None), (ResourceUnit(resources, count, Price("uact", Decimal(price))),)
    )


def order(dseq: int, *, oseq: int = 1) -> OrderId:
    return OrderId(signing_key(TENANT).address, dseq, 1, oseq)


def deployment(dseq: int) -> DeploymentId:
    return DeploymentId(signing_key(TENANT).address, dseq)


Answer = Callable[[str, dict[str, Any]], Any]


@asynccontextmanager
async def scripted_node(answer: Answer) -> AsyncIterator[str]:
    """A node that answers `answer(method, params)`: a response, bytes, a JSON-RPC result, or what is awaited for one.
    It has no websocket.
    """

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        found = answer(body["method"], body["params"])
        if inspect.isawaitable(found):
            found = await found
        if isinstance(found, web.StreamResponse):
            return found
        if isinstance(found, bytes):
            return web.Response(body=found)
        return web.Response(text=json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": found}))

    app = web.Application()
    app.router.add_post("/", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def status(height: int = 10, *, network: str = "local", earliest: int = 1, catching_up: bool = False) -> dict[str, Any]:
    return {
        "node_info": {"network": network},
        "sync_info": {
            "latest_block_height": str(height),
            "latest_block_time": "2026-11-27T23:04:38.907516384Z",
            "catching_up": catching_up,
            "earliest_block_height": str(earliest),
        },
    }
