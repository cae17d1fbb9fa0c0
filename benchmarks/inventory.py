"""The inventory operator in a large cluster: 500 nodes and 10,000 pods, played by kwok.

    python -m benchmarks.inventory [--nodes 500] [--pods 10000] [--rounds 10]    # last line one JSON object

`first_state_s` runs from the start of the operator's process, when all objects exist, to the first answer of its REST
server that has every node with its cards and every pod. Hardware is answered by one scripted server. `publish_s` runs
from the deletion of a pod to the first answer without what it took; the slowest of the rounds. `inventory_mb` is the
largest memory that the operator's process ever had.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from devnet.controlplane import ControlPlane
from devnet.controlplane.contents import NodeSpec, node_object
from devnet.tools import CONTROL_PLANE, ensure_tools
from provider.bus import MemoryBus
from provider.kube.client import KubeCluster
from provider.kube.server import ApiServer, Request
from provider.observe.logs import configure_logging
from provider.operators.inventory.discovery_pod import DiscoveryOptions
from provider.operators.inventory.operator import InventoryOperator, OperatorOptions
from provider.operators.inventory.process import Listeners, serving
from provider.operators.inventory.registry_source import RegistryError
from provider.protocols.clock import SystemClock
from provider.settings import LogFormat
from tests.provider.operators.inventory.world import cards

__all__ = ["inventory_figures"]

_NAMESPACE = "akash-services"
_AT_ONCE = 32
_CARD = ("10de", "20b5")
_LIMIT_S = 300.0


def inventory_figures(nodes: int = 500, pods: int = 10_000, rounds: int = 10) -> dict[str, float]:
    tools = ensure_tools(CONTROL_PLANE, build=False)
    with tempfile.TemporaryDirectory() as folder, ControlPlane.start(Path(folder) / "plane", tools) as plane:
        return asyncio.run(_measure(plane.kubeconfig, nodes=nodes, pods=pods, rounds=rounds))


async def _measure(kubeconfig: Path, *, nodes: int, pods: int, rounds: int) -> dict[str, float]:
    server = ApiServer(kubeconfig, timeout_seconds=60)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(server.aclose)
        await _fill(server, nodes, pods)
        hardware = await stack.enter_async_context(_hardware())
        began = time.perf_counter()
        process, rest = await stack.enter_async_context(_operator(kubeconfig, hardware))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        await _until(lambda: _complete(session, rest, nodes=nodes, pods=pods), pause_s=0.5)
        first = time.perf_counter() - began
        publish = [await _deletion(server, session, rest, number) for number in range(rounds)]
        status = Path(f"/proc/{process.pid}/status").read_text()
    peak_kb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return {
        "first_state_s": round(first, 1),
        "publish_s": round(max(publish), 2),
        "inventory_mb": round(peak_kb / 1024),
    }


async def _fill(server: ApiServer, nodes: int, pods: int) -> None:
    """Every object exists and every pod runs."""
    names = [_namespace(number) for number in range((pods + 99) // 100)]
    spaces = ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (_NAMESPACE, *names))
    await _create(server, (("api/v1/namespaces", one) for one in spaces))
    specs = (NodeSpec(f"node-{number}", gpus=1, gpu_model="a100") for number in range(1, nodes + 1))
    await _create(server, (("api/v1/nodes", node_object(one)) for one in specs))
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": DiscoveryOptions("", "").account}}
    await _create(server, [(f"api/v1/namespaces/{_NAMESPACE}/serviceaccounts", account)])
    await _until(lambda: _accounts(server, len(names)), pause_s=1)
    made = ((f"api/v1/namespaces/{_namespace(n // 100)}/pods", _pod(n, nodes)) for n in range(pods))
    await _create(server, made)
    await _until(lambda: _running(server), pause_s=2)


def _namespace(number: int) -> str:
    return f"lease-{number}"


def _pod(number: int, nodes: int) -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": "64Mi", "ephemeral-storage": "1Gi"}
    container = {"name": "web", "image": "nginx", "resources": {"requests": requests, "limits": requests}}
    labels = {"akash.network": "true", "akash.network/namespace": _namespace(number // 100)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"web-{number}", "labels": labels},
        "spec": {"nodeName": f"node-{number % nodes + 1}", "containers": [container]},
    }


async def _create(server: ApiServer, objects: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(path: str, obj: Mapping[str, Any]) -> None:
        async with turns:
            await _call(server, "POST", path, obj)

    await asyncio.gather(*(one(path, obj) for path, obj in objects))


async def _call(server: ApiServer, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    content = None if body is None else json.dumps(body).encode()
    async with server.request(Request(method, path, {}, content, {"Content-Type": "application/json"})) as response:
        answer = json.loads(await response.read())
        assert response.status < 400 or response.status == 409, answer
        return answer


async def _accounts(server: ApiServer, count: int) -> bool:
    found = await _call(server, "GET", "api/v1/serviceaccounts")
    names = [str(one["metadata"]["name"]) for one in found["items"]]
    return names.count("default") > count


async def _running(server: ApiServer) -> bool:
    found = await _call(server, "GET", "api/v1/pods?fieldSelector=status.phase%21%3DRunning&limit=1")
    items: list[object] = found["items"]
    return not items


async def _until(holds: Any, *, pause_s: float) -> None:
    async with asyncio.timeout(_LIMIT_S):
        while not await holds():
            await asyncio.sleep(pause_s)


@asynccontextmanager
async def _hardware() -> AsyncIterator[str]:
    """One server that answers for every node."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(cards(_CARD))

    app = web.Application()
    app.router.add_get("/{pod}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _operator(kubeconfig: Path, hardware: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """The operator as a process, and the address of its REST server."""
    argv = (sys.executable, "-m", "benchmarks.inventory", "--operator", str(kubeconfig), hardware)
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield process, (await process.stdout.readline()).decode().strip()
    finally:
        process.kill()
        await process.wait()


async def _run_operator(kubeconfig: Path, hardware: str) -> None:
    async def ask(pod: str, namespace: str) -> Mapping[str, Any]:
        async with session.get(f"{hardware}/{pod}") as response:
            answer: dict[str, Any] = await response.json()
            return answer

    async def no_fetch() -> bytes:
        raise RegistryError("the benchmark has none")

    async def no_ceph(namespace: str) -> str:
        raise AssertionError(namespace)

    cluster, bus = KubeCluster(kubeconfig), MemoryBus()
    options = OperatorOptions(DiscoveryOptions(_NAMESPACE, "lessor:benchmark"))
    async with AsyncExitStack() as stack, aiohttp.ClientSession() as session:
        operator = InventoryOperator(
            cluster, options, ask=ask, ceph_df=no_ceph, fetch=no_fetch, bus=bus, clock=SystemClock()
        )
        rest, _ = await serving(operator, bus, Listeners("127.0.0.1", 0, 0), stack=stack)
        print(f"http://127.0.0.1:{rest}", flush=True)
        await operator.run()


async def _complete(session: aiohttp.ClientSession, rest: str, *, nodes: int, pods: int) -> bool:
    async with session.get(f"{rest}/v1/inventory") as response:
        if response.status != 200:
            return False
        found = (await response.json())["nodes"]
    with_cards = [one for one in found if one["resources"]["gpu"]["info"]]
    taken = sum(_milli(one) for one in found)
    return len(with_cards) == nodes and taken == pods * 100


def _milli(node: Mapping[str, Any]) -> int:
    text = node["resources"]["cpu"]["quantity"]["allocated"]
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


async def _deletion(server: ApiServer, session: aiohttp.ClientSession, rest: str, number: int) -> float:
    """Seconds from the answer to the deletion of a pod to the state without it."""
    node = f"node-{number + 1}"

    async def taken() -> int:
        async with session.get(f"{rest}/v1/node", params={"name": node}) as response:
            return _milli(await response.json())

    async def gone() -> bool:
        return await taken() < before

    before = await taken()
    await _gone(_call(server, "DELETE", f"api/v1/namespaces/{_namespace(0)}/pods/web-{number}?gracePeriodSeconds=0"))
    began = time.perf_counter()
    await _until(gone, pause_s=0.01)
    return time.perf_counter() - began


async def _gone(deletion: Awaitable[Any]) -> None:
    await deletion


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--operator", nargs=2, metavar=("KUBECONFIG", "HARDWARE"), help="be the operator's process")
    for name, number in (("nodes", 500), ("pods", 10_000), ("rounds", 10)):
        parser.add_argument(f"--{name}", type=int, default=number)
    given = parser.parse_args()
    if given.operator:
        configure_logging(form=LogFormat.CONSOLE, level="warning")
        asyncio.run(_run_operator(Path(given.operator[0]), given.operator[1]))
        return
    figures = inventory_figures(given.nodes, given.pods, given.rounds)
    for name, figure in figures.items():
        print(f"{name:16} {figure:>8}")
    print(f"load average {os.getloadavg()[0]:.2f}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
