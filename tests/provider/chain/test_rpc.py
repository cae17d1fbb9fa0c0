"""One call: bounded in time, retried where that helps, its errors naming the address."""

from __future__ import annotations

import asyncio
import base64
import socket

import pytest
from aiohttp import web

from provider.chain.rpc import QueryError, RpcClient, RpcError
from provider.errors import ChainError
from provider.protocols.clock import SystemClock
from tests.provider.chain.world import client, order, scripted_node, status


def rpc(address: str, seconds: float = 2) -> RpcClient:
    return RpcClient(address, clock=SystemClock(), timeout=seconds)


async def ask(address: str, method: str = "status", *, seconds: float = 2) -> object:
    caller = rpc(address, seconds)
    try:
        return await caller.call(method)
    finally:
        await caller.close()


async def test_a_dead_node_is_named_and_costs_seconds_not_for_ever() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ChainError, match=address):
        await ask(address, seconds=3600)


async def test_a_node_that_never_answers_is_given_up_in_time() -> None:
    open_connections: list[asyncio.StreamWriter] = []

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_connections.append(writer)
        await reader.read()

    server = await asyncio.start_server(silence, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with pytest.raises(ChainError, match=r"no answer within 0\.2 s"):
        await ask(address, seconds=0.2)
    server.close()
    for writer in open_connections:
        writer.close()
        await writer.wait_closed()


async def test_a_transient_failure_is_retried_without_an_error() -> None:
    calls = 0

    def answer(method: str, params: dict[str, object]) -> object:
        nonlocal calls
        calls += 1
        return web.Response(status=502, text="bad gateway") if calls < 3 else status()

    async with scripted_node(answer) as address:
        assert await ask(address) == status()
    assert calls == 3


async def test_a_refusal_is_not_retried() -> None:
    calls = 0

    def answer(method: str, params: dict[str, object]) -> object:
        nonlocal calls
        calls += 1
        return web.json_response(
            {"jsonrpc": "2.0", "error": {"code": -32603, "message": "Internal error", "data": "no"}}
        )

    async with scripted_node(answer) as address:
        with pytest.raises(RpcError, match="no") as error:
            await ask(address)
    assert (calls, error.value.code, error.value.text) == (1, -32603, "no")


@pytest.mark.parametrize(
    "response",
    [
        {"code": 6, "codespace": "sdk", "log": "unknown query path"},
        {"code": 0, "value": "not base64!", "height": "5"},
        {"code": 0, "value": base64.b64encode(b"\xff\xff\xff").decode(), "height": "5"},
        {"code": 0, "value": "", "height": "five"},
    ],
)
async def test_a_query_answer_that_cannot_be_used_is_an_error_never_an_absence(response: dict[str, object]) -> None:
    async with scripted_node(lambda method, params: {"response": response}) as address, client(address) as chain:
        with pytest.raises(ChainError, match=address):
            await chain.order(order(7))


async def test_not_found_counts_only_with_its_code() -> None:
    lying = {"code": 18, "codespace": "sdk", "log": "order not found"}
    async with scripted_node(lambda method, params: {"response": lying}) as address, client(address) as chain:
        with pytest.raises(QueryError):
            await chain.order(order(7))


@pytest.mark.parametrize("broken", [{}, {"node_info": 5}, {**status(), "sync_info": {}}])
async def test_a_status_without_its_parts_is_an_error(broken: dict[str, object]) -> None:
    async with scripted_node(lambda method, params: broken) as address, client(address) as chain:
        with pytest.raises(ChainError, match="status"):
            await chain.head()


async def test_an_endless_list_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    from akash.market.v1beta5 import query_pb2
    from cosmos.base.query.v1beta1 import pagination_pb2

    page = query_pb2.QueryOrdersResponse(pagination=pagination_pb2.PageResponse(next_key=b"again"))
    value = base64.b64encode(page.SerializeToString()).decode()
    async with (
        scripted_node(lambda m, p: {"response": {"value": value, "height": "5"}}) as address,
        client(address) as chain,
    ):
        with pytest.raises(ChainError, match="repeats its page key"):
            await chain.open_orders()
