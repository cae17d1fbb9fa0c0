"""A provider's world: cluster, chain, cluster stack, a registered provider, `lessor run` and a tenant.

    async with World.start(Path(".devnet"), ensure_tools()) as world:
        deployment = await world.tenant.publish(read_sdl(text))

Everything is on loopback and in one folder, and ends with the process that started it.
"""

from devnet.world.provider_process import Event, ProviderProcess
from devnet.world.terms import Cluster, Terms
from devnet.world.world import PROVIDER_LOG, World

__all__ = ["PROVIDER_LOG", "Cluster", "Event", "ProviderProcess", "Terms", "World"]
