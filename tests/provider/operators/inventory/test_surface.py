"""What the inventory operator answers over REST and gRPC (operators.md §2.10, §2.11)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import aiohttp
import grpc.aio
import pytest
from akash.inventory.v1 import types_pb2 as pb
from google.protobuf.empty_pb2 import Empty
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from provider.inventory.capacity import Capacity
from provider.operators.inventory.answers import hardware
from provider.operators.inventory.discovery_pod import DiscoveryOptions
from provider.operators.inventory.facts import PodFacts, node_facts
from provider.operators.inventory.operator import InventoryOperator, OperatorOptions
from provider.operators.inventory.process import Listeners, serving
from provider.operators.inventory.quantity import ResourcePair
from provider.operators.inventory.registry import bundled_registry
from provider.operators.inventory.state import ClusterState, NodeState, StorageState, Verdict, node_state
from tests.provider.operators.inventory.world import World, cards, node
from tests.world.cluster import FakeCluster


def one_node(name: str = "n1") -> NodeState:
    """The example of operators.md §2.10."""
    allocatable = {"cpu": "15892m", "memory": "33554432k"}
    facts = node_facts(node(name, resources={"memory": "33554432k", "nvidia.com/gpu": "1"}, allocatable=allocatable))
    taken = PodFacts(name, Capacity(cpu_milli=1500, memory_bytes=512 << 20), 0, (True, False))
    found = hardware(cards(("10de", "2684")))
    verdict = Verdict(True, {}, ("beta2",))
    return node_state(facts, found, [taken], verdict=verdict, registry=bundled_registry())


STATE = ClusterState((one_node(),), (StorageState("beta2", ResourcePair(10**12, 10**12, 0), "ceph", "x.csi.ceph.com"),))
EXAMPLE = """{"nodes":[{"name":"n1","resources":{
  "cpu":{"quantity":{"allocatable":"15892m","allocated":"1500m","capacity":"16"},
         "info":[{"id":"0","vendor":"AuthenticAMD","model":"AMD EPYC 7763","vcores":16}]},
  "memory":{"quantity":{"allocatable":"33554432k","allocated":"512Mi","capacity":"33554432k"},"info":null},
  "gpu":{"quantity":{"allocatable":"1","allocated":"0","capacity":"1"},
         "info":[{"vendor":"nvidia","vendor_id":"10de","name":"rtx4090","model_id":"2684","interface":"PCIe",
                  "memory_size":"24Gi"}]},
  "ephemeral_storage":{"allocatable":"100G","allocated":"0","capacity":"100G"},
  "volumes_attached":{"allocatable":"0","allocated":"0","capacity":"0"},
  "volumes_mounted":{"allocatable":"0","allocated":"0","capacity":"0"}},
  "capabilities":{"storage_classes":["beta2"]}}],
 "storage":[{"quantity":{"allocatable":"1T","allocated":"0","capacity":"1T"},"info":{"class":"beta2","iops":""}}]}"""
"""operators.md §2.10, with the vendor's id that the Go provider loses on a copy (§9, item 7)."""


@dataclass
class Surface:
    operator: InventoryOperator
    rest: str
    rpc: grpc.aio.Channel

    async def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.request(method, f"{self.rest}{path}") as response:
            return response.status, await response.text()

    def call(self, service: str, method: str, answer: Any) -> Any:
        path = f"/akash.inventory.v1.{service}/{method}"
        kind = self.rpc.unary_stream if method.startswith("Stream") else self.rpc.unary_unary
        return kind(path, Empty.SerializeToString, answer.FromString)


@pytest.fixture
async def surface() -> AsyncIterator[Surface]:
    world = World()
    options = OperatorOptions(DiscoveryOptions("akash-services", "lessor:1"))
    operator = InventoryOperator(
        FakeCluster(),
        options,
        ask=world.ask,
        ceph_df=world.ceph_df,
        fetch=world.fetch,
        bus=world.bus,
        clock=world.clock,
    )
    async with AsyncExitStack() as stack:
        rest, rpc = await serving(operator, world.bus, Listeners("127.0.0.1", 0, 0), stack=stack)
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{rpc}"))
        yield Surface(operator, f"http://127.0.0.1:{rest}", channel)


def without_additions(document: dict[str, Any]) -> dict[str, Any]:
    nodes = [{key: one[key] for key in ("name", "resources", "capabilities")} for one in document["nodes"]]
    return {"nodes": nodes, "storage": [{key: one[key] for key in ("quantity", "info")} for one in document["storage"]]}


async def test_the_inventory_is_the_go_provider_s_document_with_its_order_of_keys(surface: Surface) -> None:
    surface.operator.publication.publish(STATE)
    status, text = await surface.get("/v1/inventory")
    assert status == 200
    assert json.dumps(without_additions(json.loads(text))) == json.dumps(json.loads(EXAMPLE))


async def test_any_method_reads_the_inventory_and_pretty_indents_it(surface: Surface) -> None:
    surface.operator.publication.publish(ClusterState())
    assert await surface.get("/v1/inventory", "POST") == (200, '{"nodes": [], "storage": []}')
    assert (await surface.get("/v1/inventory?pretty"))[1] == '{\n  "nodes": [],\n  "storage": []\n}'


async def test_before_the_first_state_there_is_nothing_to_read(surface: Surface) -> None:
    assert await surface.get("/v1/inventory") == (500, "")
    assert (await surface.get("/metrics/ready"))[0] == 503
    assert await surface.get("/metrics/health") == (200, "")
    surface.operator.publication.publish(STATE)
    assert await surface.get("/metrics/ready") == (200, "")
    assert await surface.get("/metrics/health", "POST") == (400, "")


async def test_additions_say_what_the_documentation_lists(surface: Surface) -> None:
    """operators.md §8, rows 4, 7 and 8."""
    surface.operator.publication.publish(STATE)
    document = json.loads((await surface.get("/v1/inventory"))[1])
    [found], [storage] = document["nodes"], document["storage"]
    assert found["hardware"].keys() == {"disks", "network_interfaces", "gpu_features", "unknown_gpus"}
    assert (found["conditions"], found["taints"]) == ({"Ready": "True"}, [])
    assert (storage["class"], storage["size"], storage["provisioner"]) == ("beta2", "1T", "x.csi.ceph.com")


async def test_one_node_is_read_by_name_or_alone(surface: Surface) -> None:
    surface.operator.publication.publish(STATE)
    for path in ("/v1/node", "/v1/node?name=n1"):
        assert json.loads((await surface.get(path))[1])["name"] == "n1"
    assert (await surface.get("/v1/node?name=n2"))[0] == 404
    surface.operator.publication.publish(ClusterState((one_node(), one_node("n2"))))
    assert (await surface.get("/v1/node"))[0] == 404


async def test_storage_is_read_alone(surface: Surface) -> None:
    assert (await surface.get("/v1/storage"))[0] == 500
    surface.operator.publication.publish(STATE)
    assert json.loads((await surface.get("/v1/storage"))[1])["storage"][0]["class"] == "beta2"


async def test_the_cluster_is_queried_over_grpc(surface: Surface) -> None:
    query = surface.call("ClusterRPC", "QueryCluster", pb.Cluster)
    with pytest.raises(grpc.aio.AioRpcError) as early:
        await query(Empty())
    assert early.value.code() is grpc.StatusCode.UNAVAILABLE
    surface.operator.publication.publish(STATE)
    found = await query(Empty())
    [one], [storage] = found.nodes, found.storage
    assert (one.name, one.resources.cpu.quantity.allocatable.string) == ("n1", "15892m")
    assert one.resources.memory.quantity.allocated.string == "512Mi"
    gpu = one.resources.gpu.info[0]
    assert (gpu.vendor_id, gpu.modelid, gpu.memory_size) == ("10de", "2684", "24Gi")
    assert list(one.capabilities.storage_classes) == ["beta2"]
    assert getattr(storage.info, "class") == "beta2"


async def test_a_stream_of_the_cluster_begins_with_the_state_and_has_every_change(surface: Surface) -> None:
    surface.operator.publication.publish(STATE)
    stream = surface.call("ClusterRPC", "StreamCluster", pb.Cluster)(Empty())
    assert [one.name for one in (await stream.read()).nodes] == ["n1"]
    surface.operator.publication.publish(STATE)
    surface.operator.publication.publish(ClusterState())
    assert (await stream.read()) == pb.Cluster()
    stream.cancel()


async def test_a_node_is_queried_and_streamed_by_the_name_in_the_metadata(surface: Surface) -> None:
    surface.operator.publication.publish(ClusterState((one_node(), one_node("n2"))))
    query = surface.call("NodeRPC", "QueryNode", pb.Node)
    assert (await query(Empty(), metadata=(("node", "n2"),))).name == "n2"
    for metadata in ((), (("node", "n3"),)):
        with pytest.raises(grpc.aio.AioRpcError) as missing:
            await query(Empty(), metadata=metadata)
        assert missing.value.code() is grpc.StatusCode.NOT_FOUND
    stream = surface.call("NodeRPC", "StreamNode", pb.Node)(Empty(), metadata=(("node", "n2"),))
    assert (await stream.read()).name == "n2"
    stream.cancel()
    await asyncio.sleep(0)


async def test_the_services_are_found_by_reflection(surface: Surface) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(surface.rpc)
    requests = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="akash.inventory.v1.ClusterRPC"),
    ]
    answers = [answer async for answer in stub.ServerReflectionInfo(iter(requests))]
    names = [one.name for one in answers[0].list_services_response.service]
    assert {"akash.inventory.v1.ClusterRPC", "akash.inventory.v1.NodeRPC"} <= set(names)
    assert answers[1].file_descriptor_response.file_descriptor_proto
