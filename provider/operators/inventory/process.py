"""The process of the inventory operator: the cluster's client, the operator, and its REST and gRPC listeners."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web

from provider.bus import MemoryBus
from provider.errors import ClusterError, SettingsError
from provider.kube.client import KubeCluster
from provider.operators.inventory.ceph_scrape import ceph_df_in
from provider.operators.inventory.discovery import Ask
from provider.operators.inventory.discovery_pod import DiscoveryOptions
from provider.operators.inventory.operator import InventoryOperator, OperatorOptions
from provider.operators.inventory.registry_source import registry_over_http
from provider.operators.inventory.rest import inventory_app
from provider.operators.inventory.rpc import inventory_rpc
from provider.operators.own_pod import container_image, container_port, own_container
from provider.protocols.clock import SystemClock
from provider.protocols.cluster import POD

__all__ = ["CONTAINER", "Listeners", "ProcessOptions", "ask_through", "run_inventory", "serving"]

CONTAINER = "operator-inventory"
_log = structlog.get_logger(__name__)
_READ_S = 60.0
_KINDS = ("cpu", "gpu", "memory")
"""What the hardware server of the Go provider answers, one request each."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Port 0 lets the system choose; None listens on the port that the own container names."""

    address: str = "0.0.0.0"  # noqa: S104  a pod's own address
    rest_port: int | None = None
    grpc_port: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """`pod` and `operator.discovery.namespace`: where this process itself runs; without a pod it runs elsewhere."""

    operator: OperatorOptions
    kubeconfig: Path | None = None
    pod: str = ""
    registry_url: str = "https://provider-configs.akash.network"
    listeners: Listeners = Listeners()
    image_given: bool = False


async def run_inventory(options: ProcessOptions) -> None:
    """Run until cancelled. Raises `SettingsError` for a kubeconfig, a configuration or an address that is wrong."""
    cluster, bus, clock = KubeCluster(options.kubeconfig), MemoryBus(), SystemClock()
    try:
        known = await _in_the_own_pod(cluster, options)
        operator = InventoryOperator(
            cluster,
            known.operator,
            ask=ask_through(cluster, known.operator.discovery),
            ceph_df=ceph_df_in(cluster, cluster.pods, address=cluster.address),
            fetch=registry_over_http(known.registry_url),
            bus=bus,
            clock=clock,
        )
        async with AsyncExitStack() as stack:
            await serving(operator, bus, known.listeners, stack=stack)
            await operator.run()
    finally:
        await cluster.aclose()


async def serving(
    operator: InventoryOperator, bus: MemoryBus, listeners: Listeners, *, stack: AsyncExitStack
) -> tuple[int, int]:
    """Listen for REST and gRPC until `stack` ends; the two ports. Raises `SettingsError`."""
    runner = web.AppRunner(inventory_app(operator), access_log=None, keepalive_timeout=_READ_S)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    host, rest_port, grpc_port = listeners.address, listeners.rest_port, listeners.grpc_port
    try:
        await web.TCPSite(runner, host, 8080 if rest_port is None else rest_port).start()
    except OSError as error:
        raise SettingsError(f"--rest-port: {host}:{rest_port} is not available: {error.strerror}") from error
    server = inventory_rpc(operator.publication, bus)
    try:
        bound = server.add_insecure_port(f"{host}:{8081 if grpc_port is None else grpc_port}")
    except RuntimeError as error:
        raise SettingsError(f"--grpc-port: {host}:{grpc_port} is not available") from error
    await server.start()
    stack.push_async_callback(server.stop, 1.0)
    port = runner.addresses[0][1]
    _log.info("inventory.listening", rest=f"{host}:{port}", grpc=f"{host}:{bound}")
    return port, bound


async def _in_the_own_pod(cluster: KubeCluster, options: ProcessOptions) -> ProcessOptions:
    """The options with the ports and the image of the own container, where they were not given."""
    discovery = options.operator.discovery
    try:
        container = await own_container(cluster, CONTAINER, pod=options.pod, namespace=discovery.namespace)
    except ClusterError as error:
        _log.warning("inventory.own_pod_unreadable", pod=options.pod, problem=str(error))
        container = {}
    given = options.listeners
    listeners = replace(
        given,
        rest_port=container_port(container, "rest", 8080) if given.rest_port is None else given.rest_port,
        grpc_port=container_port(container, "grpc", 8081) if given.grpc_port is None else given.grpc_port,
    )
    image = discovery.image if options.image_given else container_image(container, discovery.image)
    operator = replace(options.operator, discovery=replace(discovery, image=image))
    return replace(options, operator=operator, listeners=listeners)


def ask_through(cluster: KubeCluster, discovery: DiscoveryOptions) -> Ask:
    """Asks a discovery pod through the API server's proxy. A pod of the Go provider's image has no `/node`, and is
    asked for each kind.
    """

    async def ask(pod: str, namespace: str) -> Mapping[str, Any]:
        async def read(path: str) -> dict[str, Any]:
            return await cluster.through(POD, pod, path, namespace=namespace, port=discovery.port)

        try:
            return await read("node")
        except ClusterError as error:
            if error.status != 404:
                raise
        return {kind: await read(kind) for kind in _KINDS}

    return ask
