"""What an operator does beside a running provider: settings read again, nodes drained, who has what."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devnet.world import ProviderProcess, World
from tests.whole.conftest import MARKS, close, deploy, rent, sdl_of

pytestmark = [*MARKS, pytest.mark.long]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


async def lessor(world: World, *arguments: str) -> Any:
    """The document that the command prints."""
    command = [str(Path(sys.executable).with_name("lessor")), *arguments, "--json"]
    done = await asyncio.to_thread(
        subprocess.run, command, env=world.provider_env(), capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def config(world: World) -> Iterator[Path]:
    folder = Path(world.provider_env()["AP_HOME"]) / "config"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    yield folder / "test.toml"
    (folder / "test.toml").unlink(missing_ok=True)


async def hang_up(provider: ProviderProcess, event: str) -> Any:
    mark = len(provider.events)
    os.kill(provider.pid, signal.SIGHUP)
    return await provider.wait_for(event, after=mark)


async def test_a_file_of_the_home_is_read_again_and_the_next_order_gets_the_new_terms(
    world: World, provider: ProviderProcess, config: Path
) -> None:
    config.write_text('bid_timout = "7m"\nfunds_interval = "soon"\n')
    said = await hang_up(provider, "settings.not_reloaded")
    assert len(said["mistakes"]) == 2 and all("test.toml" in mistake for mistake in said["mistakes"])
    config.write_text('bid_denoms = "nothing"\nstack_workers = 5\n')
    said = await hang_up(provider, "settings.reloaded")
    assert said["changed"] == {"LESSOR_BID_DENOMS": "(empty) → nothing"}
    assert (await provider.wait_for("settings.need_restart"))["settings"] == ["LESSOR_STACK_WORKERS"]
    mark = len(provider.events)
    deployment = await world.tenant.publish(sdl_of(EXAMPLES / "web.yaml"))
    declined = await provider.wait_for("market.declined", after=mark)
    assert "LESSOR_BID_DENOMS" in str(declined["reasons"])
    config.unlink()
    mark = len(provider.events)
    await hang_up(provider, "settings.reloaded")
    assert len(await world.tenant.wait_for_bids(deployment, groups=1)) == 1
    await world.tenant.close_deployment(deployment)


async def test_a_node_that_is_drained_takes_no_new_lease_and_what_runs_there_stays(
    world: World, provider: ProviderProcess
) -> None:
    names = [node["name"] for node in (await lessor(world, "inventory"))["nodes"]]
    assert len(names) > 1
    rented = await rent(world, sdl_of(EXAMPLES / "web.yaml"))
    await deploy(world, provider, rented)
    hostnames = (await lessor(world, "hostname", "list"))["hostnames"]
    assert any(each["lease_id"] == str(rented.lease) for each in hostnames)
    try:
        await lessor(world, "drain", *names)
        for _ in range(600):
            if not (left := (await lessor(world, "inventory"))["nodes"]):
                break
            await asyncio.sleep(0.4)
        assert left == []
        mark = len(provider.events)
        deployment = await world.tenant.publish(sdl_of(EXAMPLES / "web.yaml"))
        await provider.wait_for("market.declined", after=mark)
        (lease,) = [one for one in await lessor(world, "lease", "list") if one["lease"] == str(rented.lease)]
        assert lease["state"] == "running"
        await lessor(world, "undrain", names[0])
        assert len(await world.tenant.wait_for_bids(deployment, groups=1)) == 1
        assert [node["name"] for node in (await lessor(world, "inventory"))["nodes"]] == [names[0]]
        await world.tenant.close_deployment(deployment)
    finally:
        await lessor(world, "undrain")
    await close(world, provider, rented)
