"""A provider inside the cluster that it serves: the cluster stack with an image, on a real node.

`make test-long` makes the image and an enclosure for these tests. The chain listens on the enclosure's loopback, which
no pod reaches; a relay on the node's address passes its bytes on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import akash  # noqa: F401
import pytest
import pytest_asyncio
from akash.base.attributes.v1.types_pb2 import Attribute as AttributeMessage
from akash.provider.v1beta4.msg_pb2 import MsgCreateProvider

from devnet.chain import TEST_MNEMONIC
from devnet.chain.keys import ROLES
from devnet.image.build import NAME, cached_image
from devnet.node import is_enclosed
from devnet.node.images import add_layout
from devnet.node.network import NODE_ADDRESS
from devnet.tools import CONTROL_PLANE, ENGINE, NODE, ensure_tools
from devnet.world import World
from devnet.world.attributes import provider_attributes
from tests.whole.node.conftest import Done, Site
from tests.world.patience import PATIENCE_S, eventually

MARKS = [pytest.mark.node, pytest.mark.long, pytest.mark.asyncio(loop_scope="session")]
SPACE, POD, KEY = "akash-services", "akash-provider-0", "lessor-key"
HOME = "/var/lib/lessor/home"
OF_THE_MACHINE = ("AP_NODE", "AP_HOME", "LESSOR_MNEMONIC_FILE", "AP_GATEWAY_LISTEN_ADDRESS", "LESSOR_DASHBOARD_LISTEN")
"""Settings of a provider beside the cluster, which one inside does not have."""


@dataclass(slots=True)
class Inside:
    """The world, and the provider's pod in it. `image` has the registry's name of the provider's image."""

    site: Site

    @property
    def world(self) -> World:
        return self.site.world

    async def kubectl(self, *arguments: str, seconds: float = 60) -> str:
        """What kubectl prints in the namespace of the provider's processes."""
        done = await self.site.kubectl("-n", SPACE, *arguments, seconds=seconds)
        assert done.status == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    async def get(self, kind: str, name: str, *, namespace: str = SPACE) -> Any:
        """An object; None without it."""
        done = await self.site.kubectl("-n", namespace, "get", kind, name, "-o", "json", "--ignore-not-found")
        assert done.status == 0, done.stderr
        return json.loads(done.stdout) if done.stdout else None

    async def lessor(self, *arguments: str) -> Done:
        """A `lessor` command in the provider's pod, as an operator runs it."""
        return await self.site.kubectl("-n", SPACE, "exec", POD, "--", "lessor", *arguments)

    async def events(self) -> list[Mapping[str, Any]]:
        """The log of the provider's present pod."""
        done = await self.site.kubectl("-n", SPACE, "logs", POD, "--tail=-1")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    async def has_logged(self, event: str, **fields: Any) -> bool:
        found = (each for each in await self.events() if each.get("event") == event)
        return any(all(each.get(key) == value for key, value in fields.items()) for each in found)

    async def wait_for(self, event: str, *, seconds: float = 2 * PATIENCE_S, **fields: Any) -> None:
        await eventually(lambda: self.has_logged(event, **fields), seconds=seconds, pause_s=0.5)

    async def ready(self, pod: str = POD) -> str:
        """The uid of the pod, if it is ready and not on its way out; else empty."""
        found = await self.get("pod", pod)
        if found is None or "deletionTimestamp" in found["metadata"]:
            return ""
        conditions = {each["type"]: each["status"] for each in found["status"].get("conditions") or ()}
        return str(found["metadata"]["uid"]) if conditions.get("Ready") == "True" else ""

    async def until_ready(self, *, not_uid: str = "", seconds: float = 3 * PATIENCE_S) -> str:
        """The uid of the provider's pod, once it is ready and another one than `not_uid`."""

        async def another() -> bool:
            return await self.ready() not in ("", not_uid)

        try:
            await eventually(another, seconds=seconds, pause_s=0.5)
        except AssertionError:
            raise AssertionError(await self.troubles()) from None
        return await self.ready()

    async def change(self, processes: Mapping[str, str], **environment: str) -> None:
        """Apply the cluster stack with other settings of the processes, and of the provider's environment."""
        stack = self.world.stack
        before = stack.config["lessor:processes"]
        changed = {**before, **processes, "environment": {**before["environment"], **environment}}
        self.world.stack = replace(stack, config={**stack.config, "lessor:processes": changed})
        await self.world.apply_cluster_stack(lambda _: None)

    async def troubles(self) -> str:
        """What an operator would look at."""
        described = await self.site.kubectl("-n", SPACE, "describe", "pods")
        logs = await self.site.kubectl("-n", SPACE, "logs", POD, "--tail=60")
        before = await self.site.kubectl("-n", SPACE, "logs", POD, "--tail=60", "--previous")
        return "\n".join((described.stdout, logs.stdout, logs.stderr, before.stdout))


async def start_inside(world: World, chain: str) -> Inside:
    """Apply the cluster stack with the image, give the provider its key, and register it on the chain."""
    inside = Inside(Site(world, None))  # type: ignore[arg-type]
    settings = {name: value for name, value in world.provider_env().items() if _is_setting(name)}
    processes = {
        "image": NAME,
        "account": world.provider,
        "storage-class": "beta2",
        "storage": "1Gi",
        "environment": {**settings, "AP_NODE": chain, "LESSOR_KEY_INDEX": str(ROLES.index("provider"))},
    }
    classes = ["beta1", "beta2", "beta3", "default"]
    config = {"lessor:processes": processes, "lessor:storage-classes": classes}
    world.stack = replace(world.stack, config=config)
    await world.apply_cluster_stack(lambda _: None)
    await give_key(inside)
    service = await inside.get("service", "akash-provider")
    attributes = [AttributeMessage(key=item.key, value=item.value) for item in provider_attributes(world.terms.nodes)]
    uri = f"https://{service['spec']['clusterIP']}:8443"
    await world.account("provider").send([MsgCreateProvider(owner=world.provider, host_uri=uri, attributes=attributes)])
    return inside


async def give_key(inside: Inside) -> None:
    """Make the Secret that the stack names and does not make."""
    await inside.kubectl("create", "secret", "generic", KEY, f"--from-literal=mnemonic={TEST_MNEMONIC}")


def _is_setting(name: str) -> bool:
    fixed = (*OF_THE_MACHINE, "LESSOR_PYTHON", "LESSOR_CACHE", "LESSOR_API_SERVER_ENDPOINTS")
    return name.partition("_")[0] in ("AP", "AKASH", "LESSOR") and name not in fixed


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def inside(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Inside]:
    """One world, with one provider in a pod, for all tests of this folder."""
    if not is_enclosed():
        pytest.fail("these tests run inside an enclosure: use `make test-long`", pytrace=False)
    if not (cached_image() / "index.json").exists():
        pytest.fail("there is no image: run `python -m devnet.image` outside the enclosure", pytrace=False)
    toolbox = ensure_tools([*CONTROL_PLANE, *ENGINE, *NODE], build=False)
    data: Path = tmp_path_factory.mktemp("inside")
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(World.start_real(data, toolbox))
        assert world.node is not None
        add_layout(world.node.folder / "images", cached_image())
        chain = await stack.enter_async_context(_relay(world.chain.rpc_address))
        started = await start_inside(world, chain)
        await started.until_ready()
        yield started


@asynccontextmanager
async def _relay(address: str) -> AsyncIterator[str]:
    """Pass on what arrives at the node's address; the URL there."""
    host, _, port = address.removeprefix("http://").rpartition(":")

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))

    server = await asyncio.start_server(passed, NODE_ADDRESS, 0)
    try:
        yield f"http://{NODE_ADDRESS}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
