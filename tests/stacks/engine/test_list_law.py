"""The law of the two ways to register a lease: a list and the SDK's program leave the same state, and each takes what
the other has made for its own.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lease.spec import LeaseSpec
from stacks.engine import EngineConfig, PulumiEngine
from tests.data import SDL
from tests.stacks.engine.test_imported_state import data_key, opened
from tests.stacks.leases import demo, lease_id, small
from tests.whole.corpus.documents import NEVER_BID, SAMPLE, all_nodes, leases_of, valid_names

pytestmark = [pytest.mark.devnet, pytest.mark.timeout(3600)]
AT_ONCE = 4
PARTS = 8
"""Of the corpus, each a test of a few minutes."""
WAYS = ("sdk", "list")
OFTEN = SAMPLE[3:7]
"""Forty ports, rights of a pod, a volume of the default class and one in memory."""


def corpus(chosen: Sequence[str]) -> list[LeaseSpec]:
    """The documents' leases, each with an identity that no other test has. An address is one lease's alone, so that
    those who lease one are left to `demo`.
    """
    nodes, specs = all_nodes(), []
    for number, name in enumerate(valid_names()):
        if name in chosen:
            text = (SDL / f"{name}.yaml").read_bytes()
            specs += leases_of(name, text, number=number, nodes=nodes, api_server="192.0.2.1:6443")
    return [spec.model_copy(update={"lease": lease_id()}) for spec in specs if not spec.leased_ips]


@asynccontextmanager
async def engines(configs: dict[str, EngineConfig]) -> AsyncIterator[dict[str, PulumiEngine]]:
    made = {way: PulumiEngine(config.model_copy(update={"program": way})) for way, config in configs.items()}
    try:
        yield made
        problems = {way: engine.resident.problem for way, engine in made.items() if engine.resident}
        assert problems == dict.fromkeys(made, ""), "command lines have run instead"
    finally:
        for engine in made.values():
            await engine.close()


async def each(specs: list[LeaseSpec], act: Callable[[LeaseSpec], Any]) -> None:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(spec: LeaseSpec) -> None:
        async with places:
            await act(spec)

    await asyncio.gather(*(one(spec) for spec in specs))


def state(config: EngineConfig, spec: LeaseSpec) -> dict[str, Any]:
    """The resources of a state by URN, with their secrets in clear, and without what differs between two runs of one
    way: times, the id of the provider, the order of dependencies, and what others write into an object meanwhile.
    """
    text = config.state_file(spec.namespace).read_text().replace(str(config.kubeconfig_copy), "KUBECONFIG")
    latest = json.loads(text)["checkpoint"]["latest"]
    cluster = next(item["id"] for item in latest["resources"] if item["type"] == "pulumi:providers:kubernetes")
    found = opened(json.loads(json.dumps(latest["resources"]).replace(cluster, "ID")), data_key(config, spec))
    for item in found:
        assert re.match(r"20\d\d-", item.pop("created", "2026-")) and re.match(
            r"20\d\d-", item.pop("modified", "2026-")
        )
        for order in ("dependencies", "propertyDependencies"):
            if isinstance(item.get(order), list):
                item[order].sort()
        if sent := item.get("outputs", {}).get("__inputs"):
            own = {key: value for key, value in item["outputs"].items() if key.startswith("__")}
            item["outputs"] = own | _kept(item["outputs"], sent)
    assert latest.keys() <= {"manifest", "secrets_providers", "resources", "metadata"}, "nothing is left out"
    return {item["urn"]: item for item in found}


def _kept(live: Any, sent: Any) -> Any:
    """What the API server has kept of the fields that were sent; others fill in the rest meanwhile."""
    if isinstance(live, dict) and isinstance(sent, dict):
        return {key: _kept(live.get(key), value) for key, value in sent.items()}
    if isinstance(live, list) and isinstance(sent, list) and len(live) == len(sent):
        return [_kept(*pair) for pair in zip(live, sent, strict=True)]
    return live


async def same_states(config: EngineConfig, specs: list[LeaseSpec]) -> None:
    """Both ways make each lease, each with a state of its own, the second over the objects of the first. Then the
    states change hands.
    """
    configs = {way: config.model_copy(update={"data": config.data / way}) for way in WAYS}
    async with engines(configs) as by:

        async def make(spec: LeaseSpec) -> None:
            for way in WAYS:
                made = await by[way].up(spec)
                assert made.ok, (way, made.error)
                assert made.outputs == {"namespace": spec.namespace, "spec-hash": spec.content_hash()}
            left, right = (state(configs[way], spec) for way in WAYS)
            assert left.keys() == right.keys()
            for urn, item in left.items():
                assert item == right[urn], urn
            assert sum("lessor:lease:" in item["type"] for item in left.values()) > 2

        await each(specs, make)
    async with engines(dict(zip(WAYS, reversed(configs.values()), strict=True))) as by:

        async def take(spec: LeaseSpec) -> None:
            for way in WAYS:
                unchanged = await by[way].up(spec)
                assert unchanged.ok, unchanged.error
                assert unchanged.summary.keys() == {"same"}, (way, unchanged.changes)
            assert (await by["list"].destroy(spec.namespace)).ok

        await each(specs, take)


async def test_a_list_and_the_program_leave_the_same_state(config: EngineConfig) -> None:
    await same_states(config, [small(), demo(), *corpus(OFTEN)])


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
async def test_a_list_and_the_program_leave_the_same_state_for_every_document_of_the_corpus(
    config: EngineConfig, part: int
) -> None:
    served = [name for name in valid_names() if name not in NEVER_BID]
    await same_states(config, corpus(served[part::PARTS]))


@pytest.mark.long
async def test_the_stock_command_line_finds_nothing_to_do_for_what_a_list_has_made(config: EngineConfig) -> None:
    spec = demo()
    async with engines({"list": config}) as by:
        assert (await by["list"].up(spec)).ok
    stock = PulumiEngine(config.model_copy(update={"engine": "stock"}))
    try:
        preview = await stock.preview(spec)
        assert preview.ok, preview.error
        assert preview.summary.keys() == {"same"}
        assert (await stock.refresh(spec.namespace)).ok
        assert (await stock.destroy(spec.namespace)).ok
    finally:
        await stock.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.long
async def test_a_version_that_one_way_has_made_is_changed_and_destroyed_by_the_other(
    config: EngineConfig, way: str
) -> None:
    spec = small()
    async with engines({way: config}) as by:
        assert (await by[way].up(spec)).ok
    (other,) = set(WAYS) - {way}
    async with engines({other: config}) as by:
        changed = await by[other].up(small("nginx:2", lease=spec.lease))
        assert changed.ok, changed.error
        assert [change.type for change in changed.changes] == ["kubernetes:apps/v1:Deployment"]
        back = await by[other].preview(spec)
        assert [(change.op, change.type) for change in back.changes] == [("update", "kubernetes:apps/v1:Deployment")]
        assert (await by[other].destroy(spec.namespace)).ok
