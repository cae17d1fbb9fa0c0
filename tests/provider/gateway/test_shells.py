"""Shells of tenants: what a client sends reaches its command, and what becomes of commands that nobody waits for."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from wsproto.frame_protocol import Frame, Opcode

from lease.ids import namespace_name
from lease.manifest_decode import manifest_from_json
from provider.errors import ClusterError
from provider.gateway.config import StreamLimits
from provider.gateway.streams.shell import ExecProblem, Inbox, chosen_pod
from provider.protocols.cluster import DEPLOYMENT, EVENT, NAMESPACE
from provider.protocols.pods import Command
from provider.records.manifests import ManifestRecord, manifest_object
from tests.provider.gateway.accounts import NOW
from tests.provider.gateway.manifests import TENANT, body, lease
from tests.provider.gateway.sockets import opened
from tests.provider.gateway.world import World, new_world, place
from tests.world.patience import eventually
from tests.world.pods import FakeExecution, exit_status, pod_object

SPACE = namespace_name(lease())
LEASE = "/lease/42/1/1"
PATH = f"{LEASE}/shell?cmd0=sh&tty=0&service=web&stdin=1&podIndex=0"


@pytest.fixture
async def world(tmp_path: Path):
    world = new_world(tmp_path, streams=StreamLimits(shell_idle_seconds=0.2))
    world.clock.set(NOW)
    world.chain.public_keys[TENANT.address] = TENANT.public
    async with world.running():
        yield world


def runs(world: World) -> None:
    group = manifest_from_json(body())[0]
    world.cluster.put(manifest_object(ManifestRecord(lease(), group, {}), namespace="lease"))
    place(world.cluster, NAMESPACE, SPACE)
    for service in ("web", "db"):
        place(world.cluster, DEPLOYMENT, service, namespace=SPACE, status={"replicas": 1, "readyReplicas": 1})
        world.cluster.put(pod_object(SPACE, f"{service}-1", service))
        world.pods.log_of(f"{service}-1").write(f"line of {service}".encode())


def limited(*scopes: str, services: tuple[str, ...] = ("web",)) -> str:
    """A token for these services of the lease."""
    entry = {"dseq": 42, "scope": list(scopes), "services": list(services)}
    permission = {"provider": lease().provider, "access": "granular", "deployments": [entry]}
    return TENANT.token(TENANT.claims(leases={"access": "granular", "permissions": [permission]}))


def payloads(frames: list[Frame]) -> list[bytes]:
    return [each.payload for each in frames if isinstance(each.payload, bytes)]


async def test_what_a_client_sends_reaches_the_command_in_its_order(world: World) -> None:
    runs(world)

    async def play(_: Command, execution: FakeExecution) -> None:
        await execution.has_read(200_000)
        execution.finish(exit_status(7))

    world.pods.play = play
    async with opened(world, PATH, TENANT.token()) as client:
        client.send(Opcode.BINARY, b"h" + b"x" * 199_999)
        client.send(Opcode.BINARY, b"i\x00\x64\xff\xfc")
        client.send(Opcode.BINARY, b"hy")
        assert [each.payload for each in await client.rest()] == [b'f{"exit_code":7}\n']
    execution = world.pods.executions[0]
    assert execution.stdin == b"x" * 199_999 + b"y"
    assert execution.sizes == [(100, 65532)]
    assert world.pods.commands == [Command(SPACE, "web-1", "web", ("sh",), stdin=True)]


async def test_a_command_that_reads_nothing_makes_its_client_wait(world: World) -> None:
    held: list[bool] = []
    inbox = Inbox(held.append)
    inbox.receive(b"h" + b"x" * 60_000, True, True)
    assert held == []
    inbox.receive(b"h" + b"x" * 60_000, True, True)
    assert held == [True]
    execution = FakeExecution()
    forwarding = asyncio.create_task(inbox.forward(execution, lambda: None))
    await execution.has_read(120_000)
    forwarding.cancel()
    assert held[-1] is False


async def test_a_command_whose_client_leaves_is_ended(world: World) -> None:
    runs(world)
    world.configure(streams=StreamLimits())
    async with opened(world, PATH, TENANT.token()):
        await eventually(lambda: bool(world.pods.executions))
    await eventually(lambda: world.pods.executions[0].closed)


async def test_an_idle_shell_is_ended(world: World) -> None:
    runs(world)
    async with opened(world, PATH, TENANT.token()) as client:
        document = json.loads(payloads(await client.rest())[-1][1:])
        assert document["message"].endswith("the shell was ended after 0.2 seconds without input and output")
    assert world.pods.executions[0].closed


async def test_a_shell_of_an_unknown_lease_says_so(world: World) -> None:
    async with opened(world, PATH, TENANT.token()) as client:
        assert [each.payload for each in await client.rest()] == [
            b'f{"exit_code":0,"message":"kube: lease not found"}\n'
        ]


async def test_a_service_without_ready_replicas_runs_no_command(world: World) -> None:
    runs(world)
    place(world.cluster, DEPLOYMENT, "web", namespace=SPACE, status={"replicas": 1, "readyReplicas": 0})
    async with opened(world, PATH, TENANT.token()) as client:
        assert b"no active replicase for service" in payloads(await client.rest())[0]


async def test_a_failure_that_is_not_the_tenants_has_no_details(world: World) -> None:
    runs(world)

    async def play(_: Command, execution: FakeExecution) -> None:
        execution.finish({"status": "Failure", "message": "dial tcp 192.0.2.1:10250: connect: connection refused"})

    world.pods.play = play
    async with opened(world, PATH, TENANT.token()) as client:
        assert [each.payload for each in await client.rest()] == [b"g"]


@pytest.mark.parametrize(
    ("changes", "index", "text"),
    [
        ({}, 9999, "pod index out of range: valid range is [0, 0]"),
        ({"phase": "Succeeded"}, 0, "service with that name is not running: the service has completed"),
        ({"phase": "Failed"}, 0, "service with that name is not running: the service has failed"),
        ({"conditions": []}, 0, "service with that name is not running: the service is not ready"),
    ],
)
def test_a_pod_that_cannot_run_a_command_is_refused_in_gos_words(
    changes: dict[str, Any], index: int, text: str
) -> None:
    with pytest.raises(ExecProblem, match="remote command execute error: ") as caught:
        chosen_pod([pod_object(SPACE, "web-1", "web", **changes)], index)
    assert str(caught.value).endswith(text)


def test_pods_are_indexed_by_name() -> None:
    pods = [pod_object(SPACE, name, "web") for name in ("z", "a", "b")]
    assert [chosen_pod(pods, index) for index in range(3)] == ["a", "b", "z"]
    with pytest.raises(ExecProblem, match="no such service exists with that name"):
        chosen_pod([], 0)


def event(world: World, name: str, regarding: str) -> None:
    metadata = {"name": name, "namespace": SPACE}
    obj = {"apiVersion": EVENT.api_version, "kind": EVENT.kind, "metadata": metadata, "type": "Normal", "note": name}
    world.cluster.put({**obj, "regarding": {"kind": "Pod", "namespace": SPACE, "name": regarding}})


async def test_events_are_chosen_by_service(world: World) -> None:
    runs(world)
    for name, regarding in (("a", "web-5d4-x"), ("b", "db-0"), ("c", "web"), ("d", "lease-policy")):
        event(world, name, regarding)
    async with opened(world, f"{LEASE}/kubeevents?service=web", TENANT.token()) as client:
        notes = [json.loads(str(each.payload))["note"] for each in (await client.rest())[:-1]]
    assert notes == ["a", "c"]


async def test_a_token_for_one_service_reads_no_other(world: World) -> None:
    runs(world)
    event(world, "a", "db-0")
    token = limited("status", "logs", "events", "shell")
    status = json.loads((await world.get(f"{LEASE}/status", token)).text)
    assert list(status["services"]) == ["web"]
    for path in (
        "service/db/status",
        "logs?service=db",
        "kubeevents?service=web,db",
        "shell?cmd0=a&tty=0&service=db&stdin=0&podIndex=0",
    ):
        assert (await world.get(f"{LEASE}/{path}", token)).status == 401, path
    async with opened(world, f"{LEASE}/logs", token) as client:
        assert [json.loads(str(each.payload))["name"] for each in await client.rest()] == ["web-1"]
    async with opened(world, f"{LEASE}/kubeevents", token) as client:
        assert [each.opcode for each in await client.rest()] == [Opcode.CLOSE]
    assert (await world.get(f"{LEASE}/service/web/status", token)).status == 200
    manifest = json.loads((await world.get(f"{LEASE}/manifest", limited("get-manifest"))).text)
    assert [each["name"] for group in manifest for each in group["services"]] == ["web"]
    assert json.loads((await world.get(f"{LEASE}/manifest", limited("get-manifest", services=("db",)))).text) == [
        {"name": manifest[0]["name"], "services": []}
    ]
    assert (await world.get(f"{LEASE}/service/web/status", limited("logs"))).status == 401


async def test_an_api_server_that_refuses_a_command_is_an_unknown_failure(world: World) -> None:
    runs(world)

    async def play(_: Command, execution: FakeExecution) -> None:
        execution.finish(None)

    world.pods.play = play
    async with opened(world, PATH, TENANT.token()) as client:
        assert [each.payload for each in await client.rest()] == [b"g"]
    world.pods.execute = refusing  # type: ignore[method-assign,assignment]
    async with opened(world, PATH, TENANT.token()) as client:
        assert [each.payload for each in await client.rest()] == [b"g"]


def refusing(_: Command) -> Any:
    raise ClusterError("https://fake", "forbidden", status=403)


async def test_a_client_that_answers_no_ping_keeps_its_stdin(tmp_path: Path) -> None:
    """The Go provider takes no input of a client that has answered once and is silent for 15 s."""
    world = new_world(tmp_path, streams=StreamLimits(ping_seconds=0.01))
    world.clock.set(NOW)
    world.chain.public_keys[TENANT.address] = TENANT.public
    runs(world)

    async def play(_: Command, execution: FakeExecution) -> None:
        await execution.has_read(10)
        execution.finish(exit_status(0))

    world.pods.play = play
    async with world.running(), opened(world, PATH, TENANT.token()) as client:
        client.send(Opcode.BINARY, b"hfirst")
        client.send(Opcode.PONG, b"")
        pings = [await client.frame() for _ in range(20)]
        assert {each.opcode for each in pings if each is not None} == {Opcode.PING}
        client.send(Opcode.BINARY, b"hlater")
        assert [each.payload for each in await client.rest() if each.opcode is Opcode.BINARY] == [b'f{"exit_code":0}\n']
