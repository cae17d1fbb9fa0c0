"""The world: starts a provider's surroundings in order, over public interfaces, and stops them in reverse order."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import akash  # noqa: F401
from akash.base.attributes.v1.types_pb2 import Attribute as AttributeMessage
from akash.provider.v1beta4.msg_pb2 import MsgCreateProvider

from devnet.chain import TEST_MNEMONIC, SimulatedChain, derive_key
from devnet.chain.keys import ROLES
from devnet.controlplane import DEFAULT_NODES, ControlPlane, NodeSpec
from devnet.controlplane.certificates import Outward
from devnet.node import own_enclosure
from devnet.node.configuration import NODE_NAME
from devnet.node.network import LEASED_RANGE, NODE_ADDRESS
from devnet.node.node import RealNode
from devnet.tenant import Account, Tenant
from devnet.tools import Toolbox
from devnet.world.attributes import provider_attributes
from devnet.world.cluster_stack import ClusterStack
from devnet.world.provider_process import ProviderProcess
from devnet.world.terms import Cluster, Terms

__all__ = ["PROVIDER_LOG", "World", "free_port"]

CHECKOUT = Path(__file__).resolve().parents[2]

PROVIDER_LOG = "provider.log"
"""The name of the provider's log in the world's folder."""

_DEMO_PRICES = {
    "AP_BID_PRICE_CPU_SCALE": "0.0001",
    "AP_BID_PRICE_MEMORY_SCALE": "0.0001",
    "AP_BID_PRICE_STORAGE_SCALE": ",".join(
        ("0.00001", *(f"{name}=0.00002" for name in ("beta1", "beta2", "beta3", "default")))
    ),
    "AP_BID_PRICE_ENDPOINT_SCALE": "0.01",
    "AP_BID_PRICE_IP_SCALE": "0.5",
}
"""Prices a block. They are low, because the example SDLs offer as little as 1 uact a block."""


class World:
    """`plane`, `chain` and `tenant` run from the start; methods start the rest."""

    def __init__(self, data: Path, *, plane: Cluster, chain: SimulatedChain, terms: Terms) -> None:
        self.data = data
        self.plane = plane
        self.terms = terms
        self.chain = chain
        self.gateway_port = free_port()
        self.provider = derive_key("provider").address
        self.tenant = Tenant(self.account("tenant"))
        name = f"devnet-{secrets.token_hex(4)}"
        self.stack = ClusterStack(CHECKOUT, data / "cluster-stack", plane.env(), name, terms.stack)
        self.outputs: Mapping[str, Any] = {}
        self.node: RealNode | None = None
        """The real node, if there is one."""
        self._providers: list[ProviderProcess] = []
        self.records = terms.records
        """The namespace of the durable records."""

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        data: Path,
        toolbox: Toolbox,
        *,
        block_seconds: float = 0.25,
        nodes: Sequence[NodeSpec] = DEFAULT_NODES,
    ) -> AsyncIterator[World]:
        """Start control plane and chain. The end of the context stops them and everything started since."""
        data.mkdir(parents=True, exist_ok=True)
        with ControlPlane.start(data / "controlplane", toolbox, nodes=nodes) as plane:
            async with cls.around(data, plane, _devnet_terms(plane), block_seconds=block_seconds) as world:
                yield world

    @classmethod
    @asynccontextmanager
    async def start_real(cls, data: Path, toolbox: Toolbox, *, block_seconds: float = 0.25) -> AsyncIterator[World]:
        """Start control plane, a real node and chain in the enclosure of this process.

        `toolbox` must have NODE too. Raises `EnclosureFailed` outside an enclosure.
        """
        data.mkdir(parents=True, exist_ok=True)
        outward = Outward(NODE_ADDRESS, NODE_NAME)
        with ControlPlane.start(data / "controlplane", toolbox, nodes=(), outward=outward) as plane:
            node = await asyncio.to_thread(RealNode.start, own_enclosure(), plane, toolbox)
            await asyncio.to_thread(node.wait_for_workloads)
            node.api.close()
            async with cls.around(data, plane, _real_terms(plane), block_seconds=block_seconds) as world:
                world.node = node
                yield world

    @classmethod
    @asynccontextmanager
    async def around(
        cls, data: Path, cluster: Cluster, terms: Terms, *, block_seconds: float = 0.25
    ) -> AsyncIterator[World]:
        """Start a chain for a running cluster. The end of the context stops it and everything started since."""
        async with AsyncExitStack() as stack:
            chain = await stack.enter_async_context(SimulatedChain.start(block_seconds=block_seconds))
            world = cls(data, plane=cluster, chain=chain, terms=terms)
            stack.push_async_callback(world.tenant.close)
            stack.push_async_callback(world.stop_providers)
            yield world

    def account(self, role: str) -> Account:
        """A funded account of the devnet (`tenant`, `tenant2`, `provider`, …)."""
        return Account.from_mnemonic(
            TEST_MNEMONIC, index=ROLES.index(role), grpc=self.chain.grpc_address, chain_id=self.chain.chain_id
        )

    async def apply_cluster_stack(self, line: Callable[[str], None]) -> Mapping[str, Any]:
        """Run `pulumi up` on the top-level project; returns its outputs."""
        self.outputs = await self.stack.up(line)
        return self.outputs

    async def register_provider(self) -> str:
        """Register the provider on the chain, as its operator would; returns the host URI."""
        uri = f"https://127.0.0.1:{self.gateway_port}"
        attributes = [
            AttributeMessage(key=item.key, value=item.value) for item in provider_attributes(self.terms.nodes)
        ]
        await self.account("provider").send(
            [MsgCreateProvider(owner=self.provider, host_uri=uri, attributes=attributes)]
        )
        return uri

    def provider_env(self, **changes: str) -> dict[str, str]:
        """The environment of `lessor run`: what the cluster stack puts out and all other settings; `changes` replace
        some.
        """
        mnemonic = self.data / "mnemonic"
        if not mnemonic.exists():
            mnemonic.touch(mode=0o600)
            mnemonic.write_text(TEST_MNEMONIC)
        own = {
            "AP_HOME": str(self.data / "provider"),
            "AP_NODE": self.chain.rpc_address,
            "AP_CHAIN_ID": self.chain.chain_id,
            "AP_FROM": self.provider,
            "AP_BID_DEPOSIT": "500000uact",
            "AP_GATEWAY_LISTEN_ADDRESS": f"127.0.0.1:{self.gateway_port}",
            "LESSOR_DASHBOARD_LISTEN": "127.0.0.1:0",
            "AP_CLUSTER_PUBLIC_HOSTNAME": "provider.example.com",
            "AP_DEPLOYMENT_INGRESS_STATIC_HOSTS": "true",
            "AP_DEPLOYMENT_INGRESS_DOMAIN": "ingress.example.com",
            "LESSOR_MNEMONIC_FILE": str(mnemonic),
            "LESSOR_KEY_INDEX": str(ROLES.index("provider")),
            "LESSOR_LOG_FORMAT": "json",
        }
        stack: Mapping[str, str] = self.outputs.get("environment", {})
        return {**self.plane.env(), **stack, **own, **_DEMO_PRICES, **self.terms.provider, **changes}

    async def run_provider(self, *, seconds: float = 120, **changes: str) -> ProviderProcess:
        """Start `lessor run`; returns when it follows the chain and serves its gateway."""
        provider = ProviderProcess(self.provider_env(**changes), log=self.data / PROVIDER_LOG)
        self._providers.append(provider)
        try:
            await provider.wait_for("provider.ready", seconds=seconds)
        except BaseException:
            await provider.stop()
            raise
        return provider

    async def stop_providers(self) -> None:
        """Stop all providers that run."""
        for provider in self._providers:
            if provider.running:
                await provider.stop()


def _devnet_terms(plane: ControlPlane) -> Terms:
    """The terms of the simulated nodes. The API server publishes no endpoints: the provider needs them."""
    plain = Terms()
    api = plane.api_server.removeprefix("https://")
    return replace(plain, provider={**plain.provider, "LESSOR_API_SERVER_ENDPOINTS": api})


def _real_terms(plane: ControlPlane) -> Terms:
    """The terms of the real node: pods reach the API server at the node's address."""
    plain = Terms()
    api = f"{NODE_ADDRESS}:{plane.api_server.rpartition(':')[2]}"
    settings = {**plain.provider, "LESSOR_API_SERVER_ENDPOINTS": api, "LESSOR_IP_RANGES": LEASED_RANGE}
    return replace(plain, provider=settings, nodes=(NodeSpec(NODE_NAME),), real=True)


def free_port() -> int:
    """A TCP port of loopback that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
