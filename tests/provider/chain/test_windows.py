"""Many missed blocks are requested several at once and still come once each, in order, with their gaps named."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web

from provider.protocols.chain import Block
from tests.provider.chain.world import Answer, client, scripted_node, status

LAST = 40


def results(height: int) -> dict[str, Any]:
    """A block with its height in an event."""
    attribute = {"key": "height", "value": json.dumps(height)}
    return {"height": str(height), "finalize_block_events": [{"type": "akash.x", "attributes": [attribute]}]}


def refusal(text: str) -> web.Response:
    error = {"code": -32603, "message": "Internal error", "data": text}
    return web.Response(status=500, text=json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}))


async def followed(*answers: Answer, until: int = LAST) -> list[Block]:
    """Blocks from height 2 on, of nodes with these answers."""
    found: list[Block] = []
    async with asyncio.timeout(60), scripted_node(answers[0]) as first, scripted_node(answers[-1]) as second:
        addresses = ",".join((first, second)[: len(answers)])
        async with (
            client(addresses, poll_interval=0.02) as chain,
            aclosing(chain.follow(after=1)) as blocks,  # type: ignore[type-var]
        ):
            async for block in blocks:
                found.append(block)
                if block.height >= until:
                    break
    return found


def told(blocks: list[Block]) -> list[tuple[int, int]]:
    return [(block.height, block.missed_from) for block in blocks]


def whole(first: int, last: int) -> list[tuple[int, int]]:
    return [(height, 0) for height in range(first, last + 1)]


def own(blocks: list[Block]) -> bool:
    """Each block has the events of its own height."""
    return all([event.fields["height"] for event in block.events] == [block.height] for block in blocks)


async def test_answers_in_any_order_are_delivered_by_height() -> None:
    running, most, asked = 0, 0, Counter[int]()

    async def late(height: int) -> dict[str, Any]:
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        await asyncio.sleep(0.05 if height % 4 == 0 else 0.001 * (4 - height % 4))
        running -= 1
        return results(height)

    def answer(method: str, params: dict[str, Any]) -> Any:
        if method == "status":
            return status(LAST)
        asked[int(params["height"])] += 1
        return late(int(params["height"]))

    blocks = await followed(answer)
    assert told(blocks) == whole(2, LAST)
    assert own(blocks)
    assert 1 < most <= 16
    assert set(asked.values()) == {1}


async def test_a_height_missing_amid_others_is_a_gap_of_one_and_none_after_it_is_lost() -> None:
    def answer(method: str, params: dict[str, Any]) -> Any:
        if method == "status":
            return status(LAST)
        height = int(params["height"])
        return refusal(f"could not find results for height #{height}") if height == 20 else results(height)

    blocks = await followed(answer)
    assert told(blocks) == [*whole(2, 19), (20, 20), *whole(21, LAST)]
    assert own([block for block in blocks if block.height != 20])


async def test_a_node_that_prunes_during_the_catch_up_leaves_one_gap_with_both_ends_named() -> None:
    """The answers to other heights that were requested at the same time do not become blocks."""
    lowest = 1

    def answer(method: str, params: dict[str, Any]) -> Any:
        nonlocal lowest
        if method == "status":
            return status(LAST, earliest=lowest)
        height = int(params["height"])
        lowest = 30 if height >= 15 else lowest
        refused = f"height {height} is not available, lowest height is {lowest}"
        return refusal(refused) if height < lowest and height >= 15 else results(height)

    blocks = await followed(answer)
    assert told(blocks) == [*whole(2, 14), (30, 15), *whole(31, LAST)]
    assert own(blocks)


@pytest.mark.parametrize("broken", [b"", b"<html>bad gateway</html>", None], ids=["empty", "html", "cut"])
async def test_a_node_that_fails_amid_many_blocks_hands_over_to_the_next_without_a_gap(broken: bytes | None) -> None:
    failing = False

    def first(method: str, params: dict[str, Any]) -> Any:
        nonlocal failing
        failing = failing or params.get("height") == "20"
        if failing:
            return web.Response(status=500) if broken is None else broken
        return status(LAST) if method == "status" else results(int(params["height"]))

    def second(method: str, params: dict[str, Any]) -> Any:
        return status(LAST) if method == "status" else results(int(params["height"]))

    blocks = await followed(first, second)
    assert told(blocks) == whole(2, LAST)
    assert own(blocks)


async def test_an_answer_for_another_height_is_requested_again() -> None:
    """A cache before the node mixes up answers: no block gets the events of another height, and none is left out."""
    mixed = {20: 21, 21: 20}

    def answer(method: str, params: dict[str, Any]) -> Any:
        if method == "status":
            return status(LAST)
        height = int(params["height"])
        return results(mixed.pop(height, height))

    blocks = await followed(answer)
    assert told(blocks) == whole(2, LAST)
    assert own(blocks)
