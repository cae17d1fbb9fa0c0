"""Several addresses: whatever one node does, the follower continues at the next block and never goes back."""

from __future__ import annotations

import asyncio
import base64
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from typing import Any

import pytest
from aiohttp import web
from akash.market.v1beta5 import query_pb2 as market_query

from provider.chain import codec
from provider.chain.comet import CometChain
from provider.chain.connection import Connection
from provider.chain.nodes import RpcNode, best, choose, contradicts
from provider.errors import ChainError, WrongChain
from provider.lifecycle.ending.proof import AnswerJudge, Verdict
from provider.protocols.chain import Block, Head
from tests.provider.chain.world import client, order, scripted_node, status
from tests.world.patience import PATIENCE_S

Answer = Callable[[str, dict[str, Any]], Any]
AHEAD = "height {} must be less than or equal to the current blockchain height {}"


def refusal(text: str) -> web.Response:
    error = {"code": -32603, "message": "Internal error", "data": text}
    return web.json_response({"jsonrpc": "2.0", "id": 1, "error": error})


def good(height: int = 1010, *, lowest: int = 1, **said: Any) -> Answer:
    """A node at `height` with blocks from `lowest` on."""

    def answer(method: str, params: dict[str, Any]) -> Any:
        if method == "status":
            return status(height, earliest=lowest, **said)
        if method != "block_results":
            return {"response": {"code": 0, "value": "", "height": str(height)}}
        asked = int(params["height"])
        if asked > height:
            return refusal(AHEAD.format(asked, height))
        if asked < lowest:
            return refusal(f"height {asked} is not available, lowest height is {lowest}")
        return {"height": str(asked), "txs_results": None}

    return answer


async def never(*_: Any) -> None:
    await asyncio.sleep(60)


def web_answer(code: int, **headers: str) -> Answer:
    return lambda method, params: web.Response(status=code, text="<html>", headers={"Retry-After": "1", **headers})


def unused_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


async def take(blocks: AsyncIterator[Block], count: int, *, seconds: float = PATIENCE_S) -> list[Block]:
    async with asyncio.timeout(seconds):
        return [await anext(blocks) for _ in range(count)]


def following(chain: CometChain, after: int) -> Any:
    return aclosing(chain.follow(after=after))  # type: ignore[type-var]


BAD: dict[str, Answer] = {
    "never answers": never,
    "serves another chain": good(network="other-1"),
    "is no node": lambda m, p: b"<html>login</html>",
    "answers half a JSON": lambda m, p: b'{"jsonrpc":"2.0","result":{"node_info":{"netw',
    "answers a list": lambda m, p: b"[1,2]",
    "answers nothing": lambda m, p: b"",
    "nests without end": lambda m, p: b"[" * 100_000,
    "answers too much": lambda m, p: b" " * 300_000,
    "is overloaded": web_answer(503),
    "limits our rate": web_answer(429),
    "has a broken gateway": web_answer(502),
    "moved": web_answer(301, Location="https://elsewhere.example/?key=secret"),
    "is catching up": good(catching_up=True),
    "is far behind": good(900),
    "was reset": good(3),
    "claims heights that cannot be": lambda m, p: status(5, earliest=900),
    "claims a height beyond all numbers": lambda m, p: status(10**30),
    "has pruned the block": good(lowest=1008),
    "has no block results": lambda m, p: status(1010) if m == "status" else refusal("could not find results"),
    "announces blocks it has not got": lambda m, p: status(1010) if m == "status" else good(1002)(m, p),
    "answers another height": lambda m, p: status(1010) if m == "status" else {"height": "7", "txs_results": None},
}


@pytest.mark.parametrize("what", BAD)
async def test_whatever_is_wrong_with_one_node_the_next_block_comes_from_another(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("provider.chain.connection._MAX_ANSWER_BYTES", 200_000)
    async with scripted_node(BAD[what]) as bad, scripted_node(good()) as well:
        settings = {"poll_interval": 0.02, "rpc_timeout": 0.3, "chain_id": "local"}
        async with client(f"{bad},{well}", **settings) as chain, following(chain, 1000) as blocks:  # type: ignore[arg-type]
            found = await take(blocks, 5)
    assert [(block.height, block.missed_from) for block in found] == [(height, 0) for height in range(1001, 1006)]


async def test_an_address_without_a_listener_costs_less_than_a_second() -> None:
    async with scripted_node(good()) as well, client(f"{unused_address()},{well}", rpc_timeout=5) as chain:
        async with asyncio.timeout(1):
            assert (await chain.head()).height == 1010
        assert chain.address == well
        first, second = chain.nodes()
    assert (first.used, first.height, bool(first.problem)) == (False, 0, True)
    assert (second.used, second.height, second.problem) == (True, 1010, "")


async def test_a_node_that_dies_while_it_is_followed_is_replaced_at_the_same_height() -> None:
    heads = {"one": 1005, "two": 1005}

    def one(method: str, params: dict[str, Any]) -> Any:
        return web.Response(status=503) if heads["one"] == 0 else good(heads["one"])(method, params)

    def two(method: str, params: dict[str, Any]) -> Any:
        return good(heads["two"])(method, params)

    async with (
        scripted_node(one) as first,
        scripted_node(two) as second,
        client(f"{first},{second}", poll_interval=0.02) as chain,
        following(chain, 1000) as blocks,
    ):
        before = await take(blocks, 5)
        assert chain.address == first
        heads.update(one=0, two=1008)
        after = await take(blocks, 3)
        assert chain.address == second
    assert [block.height for block in before + after] == list(range(1001, 1009))


async def test_a_node_that_stands_still_is_replaced_by_one_that_goes_on() -> None:
    """Silence is not an error: only another node shows that the chain goes on."""
    async with (
        scripted_node(good(1005)) as still,
        scripted_node(good(1009)) as well,
        client(f"{still},{well}", poll_interval=0.05) as chain,
        following(chain, 1000) as blocks,
    ):
        chain._rpc.pace.seconds = 0.1  # blocks as on a devnet, or the test waits for three of a real chain
        assert [block.height for block in await take(blocks, 9)] == list(range(1001, 1010))
        assert chain.address == well


async def test_while_all_nodes_are_behind_no_block_comes_until_one_passes_the_last_height() -> None:
    heights = iter([990] * 6 + [1003] * 1000)
    async with (
        scripted_node(lambda m, p: good(next(heights) if m == "status" else 1003)(m, p)) as one,
        scripted_node(good(980)) as two,
        client(f"{one},{two}", poll_interval=0.01) as chain,
        following(chain, 1000) as blocks,
    ):
        assert [block.height for block in await take(blocks, 3)] == [1001, 1002, 1003]


async def test_no_block_is_skipped_for_a_height_that_one_node_makes_up() -> None:
    leap = 2**62
    async with (
        scripted_node(good(leap, lowest=leap - 5)) as lying,
        scripted_node(good(1010)) as honest,
        client(f"{lying},{honest}") as chain,
        following(chain, 1009) as blocks,
    ):
        (first,) = await take(blocks, 1)
        assert (first.height, first.missed_from) == (1010, 0)
        with pytest.raises(TimeoutError):
            await take(blocks, 1, seconds=2)
        assert chain._rpc._floor == 1010


@pytest.mark.parametrize(("age_s", "height", "wrong"), [(0, 2000, False), (0, 2002, True), (3600, 38_000, False)])
def test_a_head_contradicts_a_height_that_no_chain_reaches_in_the_time_since(
    age_s: float, height: int, wrong: bool
) -> None:
    assert contradicts(Head("local", 1001, 5000.0, False), height, now=5000.0 + age_s) is wrong


async def test_an_answer_of_a_node_far_behind_is_refused() -> None:
    """After a failover, or behind a load balancer, "no such order" in an old state proves nothing."""
    async with scripted_node(good(1010)) as well, client(well, poll_interval=0.02) as chain:
        async with following(chain, 1000) as blocks:
            await take(blocks, 10)
        assert await chain.open_orders() == []
        chain._rpc.raise_floor(1100)
        with pytest.raises(ChainError, match="for height 1010, behind the known height 1100"):
            await chain.open_orders()


async def test_an_error_comes_at_once_when_every_node_serves_another_chain() -> None:
    async with (
        scripted_node(good(network="a")) as one,
        scripted_node(good(network="b")) as two,
        client(f"{one},{two}", chain_id="local") as chain,
    ):
        with pytest.raises(WrongChain, match="expected 'local'"):
            await chain.head()
        with pytest.raises(WrongChain):
            await chain.lease(order(7).bid_by("akash1p"))


async def test_a_node_of_another_chain_does_not_stop_the_provider_while_the_right_one_is_unreachable() -> None:
    async with (
        scripted_node(good(network="other")) as wrong,
        client(f"{wrong},{unused_address()}", chain_id="local") as chain,
    ):
        with pytest.raises(ChainError) as error:
            await chain.head()
    assert not isinstance(error.value, WrongChain)


async def test_a_lease_and_the_proof_of_where_it_was_read_come_from_one_node() -> None:
    """The status of one node with the answer of another would prove nothing."""
    asked: list[str] = []

    def one(method: str, params: dict[str, Any]) -> Any:
        asked.append(f"one {method}")
        return good(1010)(method, params) if method == "status" else web.Response(status=503)

    def two(method: str, params: dict[str, Any]) -> Any:
        asked.append(f"two {method}")
        if method == "status":
            return status(1012)
        return {"response": {"code": 22, "codespace": "sdk", "log": "lease not found", "height": "0"}}

    async with scripted_node(one) as first, scripted_node(two) as second, client(f"{first},{second}") as chain:
        answer = await chain.lease(order(7).bid_by("akash1p"))
    assert (answer.lease, answer.height, answer.chain_id) == (None, 1012, "local")
    assert asked[-2:] == ["two status", "two abci_query"]
    assert "one abci_query" in asked


async def test_a_path_prefix_reaches_every_method_and_the_error_names_what_was_asked() -> None:
    seen: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.Response(status=500, text="no")

    app = web.Application()
    app.router.add_route("*", "/{all:.*}", handle)
    async with AsyncExitStack() as stack:
        runner = web.AppRunner(app)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        chain = await stack.enter_async_context(client(f"{address}/rpc/a1b2c3d4e5f6a7b8c9d0e1f2/", rpc_timeout=1))
        with pytest.raises(ChainError) as error:
            await chain.order(order(7))
    assert set(seen) == {"/rpc/a1b2c3d4e5f6a7b8c9d0e1f2"}
    for word in (address, "/akash.market.v1beta5.Query/Order", "HTTP 500"):
        assert word in str(error.value)
    assert "a1b2c3d4e5f6" not in str(error.value)


@pytest.mark.parametrize("seed", range(2))
async def test_through_any_mixture_of_faults_heights_come_once_and_in_order(seed: int) -> None:
    """Three nodes, each at its own height, one in three answers bad; one of them may be fatal at any time."""
    chance, height = random.Random(seed), 1000

    def moody(lag: int) -> Answer:
        def answer(method: str, params: dict[str, Any]) -> Any:
            nonlocal height
            height += method == "status" and chance.random() < 0.5
            bad = [name for name in BAD if name not in ("never answers", "has pruned the block")]
            behave = BAD[chance.choice(bad)] if chance.random() < 0.3 else good(height - lag)
            return behave(method, params)

        return answer

    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(scripted_node(moody(lag))) for lag in (0, 1, 6)]
        chain = await stack.enter_async_context(client(",".join(nodes), poll_interval=0.005, chain_id="local"))
        blocks = await stack.enter_async_context(following(chain, 1000))
        found = await take(blocks, 20, seconds=40)
    assert [block.height for block in found] == list(range(1001, 1021))


def node(height: int = 0, *, rest: float = 0.0, catching_up: bool = False) -> RpcNode:
    made = RpcNode(Connection("http://127.0.0.1:1"))
    if height:
        made.record_head(Head("local", height, 0.0, catching_up), now=0.0)
    made.rest_until = rest
    return made


@pytest.mark.parametrize(
    ("nodes", "current", "expected"),
    [
        ([node(10), node(10)], 1, 1),
        ([node(10), node(11)], 0, 0),
        ([node(10), node(12)], 0, 1),
        ([node(10, catching_up=True), node(8)], 0, 1),
        ([node(10, catching_up=True), node(0)], 1, 0),
        ([node(0), node(9), node(9)], 0, 1),
        ([node(0), node(0)], 0, None),
    ],
)
def test_the_foremost_node_is_used_and_the_one_in_use_before_others(
    nodes: list[RpcNode], current: int, expected: int | None
) -> None:
    found = best(nodes, nodes[current])
    assert found is (None if expected is None else nodes[expected])


def test_a_node_rests_longer_each_time_and_not_for_ever() -> None:
    one, other = node(10), node(10)
    for times, rest in ((1, 1), (2, 2), (3, 4), (20, 60)):
        one.failures = times - 1
        one.record_failure("gone", now=100.0)
        assert one.rest_until == 100.0 + rest
    assert choose([one, other], one, now=100.0) is other
    other.record_failure("gone too", now=100.0, rest=30.0)
    assert other.rest_until == 130.0
    assert choose([one, other], one, now=100.0) is other
    one.record_head(Head("local", 11, 0.0, False), now=101.0)
    assert choose([one, other], other, now=101.0) is one


async def test_nodes_that_disagree_about_a_lease_prove_no_end_before_two_heights_above_all_seen() -> None:
    """One node calls the lease closed at an old height, the other, in front, calls it active (field problem F3)."""
    lease = order(7).bid_by("akash1p")

    def says(state: int, height: int) -> Answer:
        reply = market_query.QueryLeaseResponse(
            lease={"id": codec.lease_id_to_pb(lease), "state": state, "price": {"denom": "uact", "amount": "1"}}
        )
        value = base64.b64encode(reply.SerializeToString()).decode()
        query = {"response": {"code": 0, "value": value, "height": str(height)}}
        return lambda method, params: query if method == "abci_query" else good(height)(method, params)

    lying, judge, heights = says(3, 900), AnswerJudge("local"), set[int]()
    judge.saw(1010)
    async with (
        scripted_node(lying) as behind,
        scripted_node(says(1, 1010)) as front,
        client(f"{behind},{front}") as chain,
    ):
        for _ in range(3):
            assert judge.judge(lease, await chain.lease(lease), heights).verdict is Verdict.NOTHING_PROVEN
        chain._rpc.raise_floor(1010)
        assert (await chain.head()).height == 1010
        assert chain.address == front
        assert judge.judge(lease, await chain.lease(lease), heights).verdict is Verdict.ALIVE
