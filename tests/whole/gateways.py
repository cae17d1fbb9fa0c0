"""A provider whose gateway is a process of its own, as the operator runs the two."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from devnet.children import alive
from devnet.node.network import NODE_ADDRESS, NODE_PUBLIC_ADDRESS, OUTSIDE
from devnet.world import ProviderProcess, World
from provider.daemon.gateway_child import child_environment
from provider.settings import GatewayForm
from tests.provider.gateway.issuer.pebble import Place
from tests.world.patience import PATIENCE_S, eventually

__all__ = ["BEHIND_EDGE", "Apart", "running_apart"]

GATEWAY_LOG = "gateway.log"
BEHIND_EDGE = Place(
    host=OUTSIDE["gateway"],
    address=OUTSIDE["gateway"],
    names=NODE_PUBLIC_ADDRESS,
    resolver=NODE_ADDRESS,
    http_port=80,
    prefix=("ip", "netns", "exec", "outside"),
)
"""A CA in the network that plays the rest of the world: the provider's name leads to the node's public address."""


@dataclass(slots=True)
class Apart:
    """`gateway`: the process that the operator starts, None for a child of the provider."""

    world: World
    settings: Mapping[str, str]
    provider: ProviderProcess
    gateway: ProviderProcess | None

    @property
    def gateway_pid(self) -> int:
        """The process that tenants are connected with."""
        if self.gateway is not None:
            return self.gateway.pid
        started = [event for event in self.provider.events if event.get("event") == "gateway.process_started"]
        return int(started[-1]["pid"])

    async def start_provider(self) -> None:
        """Start `lessor run` again, after it has been stopped."""
        self.provider = await self.world.run_provider(seconds=2 * PATIENCE_S, **self.settings)


@asynccontextmanager
async def running_apart(world: World, form: GatewayForm, **settings: str) -> AsyncIterator[Apart]:
    """The provider and its gateway with these settings, until both have been stopped and neither process is left."""
    settings |= {"LESSOR_GATEWAY_PROCESS": form}
    gateway = _started(world, settings) if form is GatewayForm.SEPARATE else None
    provider = await world.run_provider(seconds=2 * PATIENCE_S, **settings)
    both = Apart(world, settings, provider, gateway)
    try:
        if gateway is not None:
            await gateway.wait_for("gateway.listening", seconds=PATIENCE_S)
        yield both
        pid = both.gateway_pid
        assert await both.provider.stop() == 0
        assert gateway is None or await gateway.stop() == 0
        await eventually(lambda: not alive(pid))
    finally:
        await both.provider.stop()
        if gateway is not None:
            await gateway.stop()


def _started(world: World, settings: Mapping[str, str]) -> ProviderProcess:
    """`lessor gateway` with the settings of `lessor run` but those of the key."""
    given = child_environment(world.provider_env(**settings))
    return ProviderProcess(given, log=world.data / GATEWAY_LOG, command="gateway")
