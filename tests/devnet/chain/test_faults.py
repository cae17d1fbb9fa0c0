"""The switches that make the node fail, and the state that it keeps over a restart."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from devnet.chain import SimulatedChain, devnet_genesis
from tests.devnet.chain import signing
from tests.world.patience import PATIENCE_S, until
from tests.world.processes import start_process


async def _get(chain: SimulatedChain, path: str, *, seconds: float = 5.0) -> dict[str, Any]:
    timeout = aiohttp.ClientTimeout(total=seconds)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(chain.rpc_address + path) as response:
        body: dict[str, Any] = await response.json()
        return body


async def test_a_refusing_node_cuts_the_connection_and_answers_again_afterwards() -> None:
    async with SimulatedChain.start(block_seconds=None) as chain:
        chain.faults.refuse = True
        with pytest.raises(aiohttp.ClientError):
            await _get(chain, "/status")
        chain.faults.refuse = False
        assert "result" in await _get(chain, "/status")


async def test_a_paused_node_answers_when_it_goes_on() -> None:
    async with SimulatedChain.start(block_seconds=None) as chain:
        chain.faults.paused = True
        with pytest.raises(TimeoutError):
            await _get(chain, "/health", seconds=0.2)
        waiting = asyncio.create_task(_get(chain, "/health"))
        await asyncio.sleep(0.05)
        chain.faults.paused = False
        assert (await waiting)["result"] == {}


async def test_a_delay_delays_every_answer() -> None:
    async with SimulatedChain.start(block_seconds=None) as chain:
        chain.faults.delay_seconds = 0.3
        started = time.monotonic()
        await _get(chain, "/health")
        assert time.monotonic() - started >= 0.3


async def test_a_halted_chain_makes_no_blocks_and_goes_on_at_the_next_height() -> None:
    async with SimulatedChain.start(block_seconds=0.05) as chain:
        chain.faults.halted = True
        height = chain.height
        await asyncio.sleep(0.2)
        assert chain.height == height
        chain.faults.halted = False
        await asyncio.wait_for(chain.wait_for_height(height + 1), 5)


async def test_status_says_that_the_node_catches_up() -> None:
    async with SimulatedChain.start(block_seconds=None) as chain:
        chain.faults.catching_up = True
        assert (await _get(chain, "/status"))["result"]["sync_info"]["catching_up"] is True


async def test_pruned_blocks_and_states_are_refused_in_the_recorded_words() -> None:
    async with SimulatedChain.start(block_seconds=None) as chain:
        await chain.produce(6)
        chain.prune(5)
        chain.faults.results_missing.add(6)
        assert (await _get(chain, "/status"))["result"]["sync_info"]["earliest_block_height"] == "5"
        old = (await _get(chain, "/block_results?height=3"))["error"]["data"]
        missing = (await _get(chain, "/block_results?height=6"))["error"]["data"]
        state = await _get(chain, '/abci_query?path="/akash.market.v1beta5.Query/Params"&height=3')
    assert old == "height 3 is not available, lowest height is 5"
    assert missing.startswith("could not find results for height")
    assert state["result"]["response"]["code"] == 38


async def test_a_restart_keeps_state_and_ports_and_drops_subscribers() -> None:
    async with SimulatedChain.start(block_seconds=0.05) as chain, aiohttp.ClientSession() as session:
        chain.submit(signing.signed(chain.node, [signing.create_deployment(9)], role="tenant"))
        await chain.wait_blocks(2)
        address, height = chain.rpc_address, chain.height
        socket = await session.ws_connect(f"{address}/websocket")
        await chain.restart(down_seconds=0.05)
        assert chain.rpc_address == address
        assert (await socket.receive(timeout=5)).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
        await chain.wait_for_height(height + 2)
        deployment = chain.node.query().state.get("deployment", (signing.TENANT.address, 9))
        assert deployment is not None
        assert (await _get(chain, "/health"))["result"] == {}


async def test_a_folder_brings_the_same_chain_back(tmp_path: Path) -> None:
    genesis = devnet_genesis()
    async with SimulatedChain.start(genesis, block_seconds=None, folder=tmp_path) as chain:
        chain.submit(signing.signed(chain.node, [signing.create_deployment(4)], role="tenant"))
        last = await chain.produce()
    with (tmp_path / "blocks.jsonl").open("a") as journal:
        journal.write('[3, 17, ["cut off')
    async with SimulatedChain.start(genesis, block_seconds=None, folder=tmp_path) as chain:
        assert chain.height == last.height
        assert chain.node.blocks.last == last
        assert (await chain.produce()).previous == last.hash
    async with SimulatedChain.start(genesis, block_seconds=None, folder=tmp_path) as chain:
        assert chain.height == last.height + 1


async def test_a_folder_of_another_genesis_is_refused(tmp_path: Path) -> None:
    async with SimulatedChain.start(devnet_genesis(), block_seconds=None, folder=tmp_path):
        pass
    with pytest.raises(ValueError, match="another genesis"):
        async with SimulatedChain.start(devnet_genesis(chain_id="other"), block_seconds=None, folder=tmp_path):
            pass


async def test_it_listens_on_loopback_only() -> None:
    with pytest.raises(ValueError, match="loopback only"):
        async with SimulatedChain.start(host="0.0.0.0", block_seconds=None):
            pass


def test_the_process_ends_with_its_parent() -> None:
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-m', 'devnet.chain', '--rpc-port', '0', '--grpc-port', '0'],"
        " stdout=subprocess.PIPE, text=True)\n"
        "print(child.pid, child.stdout.readline(), flush=True)\n"
        "import time; time.sleep(60)\n"
    )
    parent = start_process([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline().split(" ", 1)[0])
    parent.send_signal(signal.SIGKILL)
    parent.wait(PATIENCE_S)
    parent.stdout.close()
    until(lambda: not _alive(pid))


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except OSError:
        return False
