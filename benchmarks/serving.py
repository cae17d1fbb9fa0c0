"""How soon the provider serves: the command line, manifests and lease statuses over HTTPS, and a restart.

    nice python -m benchmarks.serving [--rounds 3] [--leases 20]

The provider is `lessor run` on a control plane and a simulated chain with blocks of 1 s. `cli_s` is the processor time
of `lessor sdl hash FILE`. In each round a tenant takes `--leases` leases and sends all manifests at once, from another
process, over connections that are open already and with a token that is signed already: `put20_ms_median` is the
median time to an answer, `put_cpu_ms` the daemon's CPU time for one of them, `available_s` (of the last round) the time
until every service is available. `status_ms_median` is that of lease statuses, asked for one after the other.

`ready_s` runs from the start of a stopped provider's process until it serves its gateway and its first bid, on an order
that was opened meanwhile, is in the node's mempool; `gateway_s` is the gateway's part, `ready_cpu_s` the daemon's CPU
time until then, and `bid_in_block_s` the time until the provider has seen its bid in a block. The last line is one JSON
object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from benchmarks.serving_client import Group, Target, client
from devnet.tenant import messages
from devnet.tenant.token import full_access, sign_token
from devnet.tools import ensure_tools
from devnet.world import Event, ProviderProcess, World
from lease.ids import DeploymentId, LeaseId
from lease.manifest_json import manifest_json
from lease.sdl import Sdl
from tests.whole.node.documents import small

__all__ = ["cpu_s", "gateway_target", "rent", "serving_figures"]

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


async def gateway_target(world: World, *, connections: int) -> Target:
    """The gateway as the tenant's client finds it: with a certificate that the chain calls valid."""
    await (await world.tenant.gateway(world.provider)).request("GET", "/version", token="")
    address = ("127.0.0.1", world.gateway_port)
    pem = await asyncio.to_thread(ssl.get_server_certificate, address, timeout=10)
    account = world.tenant.account
    token = sign_token(account.key, full_access(account.address))
    return Target(pem, f"https://{address[0]}:{address[1]}", token, connections)


def cpu_s(pid: int) -> float:
    """CPU seconds of all threads of a process so far."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


async def rent(world: World, sdl: Sdl, count: int) -> Sequence[LeaseId]:
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
    taken = await rent(world, sdl, leases)
    paths = [f"/lease/{lease.dseq}/{lease.gseq}/{lease.oseq}/status" for lease in taken]
    groups = (
        Group("PUT", [f"/deployment/{lease.dseq}/manifest" for lease in taken], manifest_json(sdl.manifest), True),
        Group("GET", [paths[number % leases] for number in range(_STATUSES)]),
    )
    async with client(await gateway_target(world, connections=leases), groups) as tenant:
        began, cpu = time.perf_counter(), cpu_s(provider.pid)
        puts = await tenant.times_ms()
        cpu_ms = (cpu_s(provider.pid) - cpu) * 1000 / leases
        for lease in taken:
            await provider.wait_for("lease.state", lease=str(lease), phase="running", seconds=300)
        available = time.perf_counter() - began
        statuses = await tenant.times_ms()
    for lease in taken:
        await world.tenant.close_deployment(DeploymentId(lease.owner, lease.dseq))
    for lease in taken:
        await provider.wait_for("lease.state", lease=str(lease), phase="closed", seconds=300)
    print(f"PUT {statistics.median(puts):.0f} ms (longest {max(puts):.0f}; {cpu_ms:.1f} of CPU each), ", end="")
    print(f"available {available:.1f} s, status {statistics.median(statuses):.1f} ms, ", end="")
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    return {"put": puts, "cpu": [cpu_ms], "status": statuses, "available": [available]}


async def _restart(world: World) -> dict[str, float]:
    """Seconds from the start of the process to the gateway, to the first bid in the node's mempool and to its block,
    and the CPU seconds until the bid was sent.
    """
    await world.stop_providers()
    await world.tenant.publish(small(web={}))
    began = time.time()
    starting = asyncio.create_task(world.run_provider())
    while not world.chain.node.pending:
        await asyncio.sleep(0.002)
    sent = time.time() - began
    cpu = cpu_s(world._providers[-1].pid)
    provider = await starting
    served, bid = await provider.wait_for("provider.ready"), await provider.wait_for("market.bid")
    gateway, block = (_at(event) - began for event in (served, bid))
    figures = {"gateway": gateway, "ready": max(gateway, sent), "block": block, "cpu": cpu}
    texts = ", ".join(f"{name} {value:.2f}" for name, value in figures.items())
    print(f"restart: {texts} s, load {os.getloadavg()[0]:.1f}", flush=True)
    return figures


def _at(event: Event) -> float:
    """Unix seconds of a line of the log."""
    return datetime.fromisoformat(str(event["timestamp"])).timestamp()


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
        "put_cpu_ms": round(statistics.median(value for each in found for value in each["cpu"]), 1),
        "gateway_s": round(statistics.median(each["gateway"] for each in restarts), 2),
        "ready_s": round(statistics.median(each["ready"] for each in restarts), 2),
        "ready_cpu_s": round(statistics.median(each["cpu"] for each in restarts), 2),
        "bid_in_block_s": round(statistics.median(each["block"] for each in restarts), 2),
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
