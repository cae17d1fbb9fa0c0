"""How soon the provider serves: the command line, manifests and lease statuses over HTTPS, and a restart.

    nice python -m benchmarks.serving [--rounds 3] [--leases 20]

The provider is `lessor run` on a control plane and a simulated chain with blocks of 1 s. `cli_s` is the processor time
of `lessor sdl hash FILE`. In each round a tenant takes `--leases` leases and sends all manifests at once, over
connections that are open already and with tokens that are signed already: `put20_ms_median` is the median time to an
answer, `available_s` (of the last round) the time until every service is available. `status_ms_median` is that of
lease statuses, asked for one after the other. `ready_s` runs from the start of a stopped provider's process until it
serves its gateway and has sent its first bid on an order that was opened meanwhile; `gateway_s` is the gateway's part.
The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp

from devnet.tenant import messages
from devnet.tenant.gateway import ProviderGateway
from devnet.tenant.token import full_access, sign_token
from devnet.tools import ensure_tools
from devnet.world import ProviderProcess, World
from lease.ids import DeploymentId, LeaseId
from lease.manifest_json import manifest_json
from lease.sdl import Sdl
from tests.whole.node.documents import small

__all__ = ["serving_figures"]

_DEPOSIT = (5_000_000, "uact")
_SDL = Path(__file__).resolve().parents[1] / "tests" / "data" / "sdl" / "accept-empty.yaml"
_CALLS, _STATUSES = 5, 100


def cli_s() -> float:
    """The median processor time of `lessor sdl hash`, in seconds."""
    program, spent = Path(sys.executable).with_name("lessor"), []
    for _ in range(_CALLS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([program, "sdl", "hash", _SDL], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(spent)


class _Client:
    """One tenant's client whose connections stay open."""

    def __init__(self, session: aiohttp.ClientSession, gateway: ProviderGateway, world: World) -> None:
        self._session = session
        self._uri = f"https://127.0.0.1:{world.gateway_port}"
        self._tls = gateway._tls
        account = world.tenant.account
        token = sign_token(account.key, full_access(account.address))
        self._headers = {"Authorization": f"Bearer {token}"}

    async def timed_ms(self, method: str, path: str, body: bytes | None = None) -> float:
        """The time to the whole answer in ms. Raises `RuntimeError` unless it is 200."""
        began = time.perf_counter()
        async with self._session.request(
            method, self._uri + path, data=body, headers=self._headers, ssl=self._tls or True
        ) as answer:
            text = await answer.text()
        if answer.status != 200:
            raise RuntimeError(f"{method} {path}: {answer.status} {text}")
        return (time.perf_counter() - began) * 1000


async def _client(session: aiohttp.ClientSession, world: World, *, connections: int) -> _Client:
    gateway = await world.tenant.gateway(world.provider)
    await gateway.request("GET", "/version", token="")  # reads the certificate
    client = _Client(session, gateway, world)
    await asyncio.gather(*(client.timed_ms("GET", "/status") for _ in range(connections)))
    return client


async def _leases(world: World, sdl: Sdl, count: int) -> Sequence[LeaseId]:
    """That many leases of the tenant: two transactions."""
    tenant = world.tenant
    ids = [DeploymentId(tenant.account.address, tenant._next_dseq()) for _ in range(count)]
    create = [messages.create_deployment(id_, groups=sdl.groups, version=sdl.version, deposit=_DEPOSIT) for id_ in ids]
    await tenant.account.send(create)
    bids = [bid for id_ in ids for bid in await tenant.wait_for_bids(id_)]
    leases = await tenant.take(bids)
    await asyncio.sleep(2)  # the provider has seen the leases and made their namespaces
    return leases


async def _round(world: World, provider: ProviderProcess, *, leases: int) -> dict[str, list[float]]:
    sdl = small(web={})
    body = manifest_json(sdl.manifest).encode()
    taken = await _leases(world, sdl, leases)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        client = await _client(session, world, connections=leases)
        began = time.perf_counter()
        puts = await asyncio.gather(
            *(client.timed_ms("PUT", f"/deployment/{lease.dseq}/manifest", body) for lease in taken)
        )
        for lease in taken:
            await provider.wait_for("lease.state", lease=str(lease), phase="running", seconds=300)
        available = time.perf_counter() - began
        paths = [f"/lease/{lease.dseq}/{lease.gseq}/{lease.oseq}/status" for lease in taken]
        statuses = [await client.timed_ms("GET", paths[number % leases]) for number in range(_STATUSES)]
    for lease in taken:
        await world.tenant.close_deployment(DeploymentId(lease.owner, lease.dseq))
    for lease in taken:
        await provider.wait_for("lease.state", lease=str(lease), phase="closed", seconds=300)
    print(f"PUT {statistics.median(puts):.0f} ms (longest {max(puts):.0f}), available {available:.1f} s, ", end="")
    print(f"status {statistics.median(statuses):.1f} ms, load {os.getloadavg()[0]:.1f}", flush=True)
    return {"put": list(puts), "status": statuses, "available": [available]}


async def _restart(world: World) -> tuple[float, float]:
    """Seconds from the start of the process to the gateway, and to the gateway and the first bid."""
    await world.stop_providers()
    await world.tenant.publish(small(web={}))
    began = time.perf_counter()
    provider = await world.run_provider()
    gateway = time.perf_counter() - began
    await provider.wait_for("market.bid")
    return gateway, time.perf_counter() - began


async def serving_figures(*, rounds: int, leases: int) -> dict[str, float]:
    figures = {"cli_s": round(cli_s(), 2)}
    with tempfile.TemporaryDirectory(prefix="lessor-benchmark-", ignore_cleanup_errors=True) as folder:
        async with World.start(Path(folder), ensure_tools(build=False), block_seconds=1.0) as world:
            await world.apply_cluster_stack(lambda _: None)
            await world.register_provider()
            provider = await world.run_provider()
            found = [await _round(world, provider, leases=leases) for _ in range(rounds)]
            restarts = [await _restart(world) for _ in range(rounds)]
    return figures | {
        "put20_ms_median": round(statistics.median(value for each in found for value in each["put"])),
        "available_s": round(found[-1]["available"][0], 1),
        "status_ms_median": round(statistics.median(value for each in found for value in each["status"]), 1),
        "gateway_s": round(statistics.median(gateway for gateway, _ in restarts), 2),
        "ready_s": round(statistics.median(ready for _, ready in restarts), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--leases", type=int, default=20)
    options = parser.parse_args()
    figures = asyncio.run(serving_figures(rounds=options.rounds, leases=options.leases))
    for name, figure in figures.items():
        print(f"{name:18} {figure:>8}")
    print(json.dumps(figures | {"load": round(os.getloadavg()[0], 1)}))


if __name__ == "__main__":
    main()
