"""A lost home, restored from a backup that was made while the provider worked: its leases go on."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from devnet.demo.leftovers import leftovers
from devnet.world import World
from lease.ids import namespace_name
from tests.whole.conftest import MARKS, Rented, close, deploy, rent, sdl_of
from tests.world.patience import PATIENCE_S

pytestmark = [*MARKS, pytest.mark.long]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


async def lessor(world: World, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lessor")), *arguments]
    return await asyncio.to_thread(
        subprocess.run, command, env=world.provider_env(), capture_output=True, text=True, check=False, timeout=240
    )


def pods(world: World, rented: Rented) -> set[str]:
    argv = [str(world.plane.toolbox.program("kubectl")), "--kubeconfig", str(world.plane.kubeconfig)]
    listed = [*argv, "get", "pods", "-n", namespace_name(rented.lease), "-o", "json"]
    done = subprocess.run(listed, capture_output=True, check=True)
    return {pod["metadata"]["uid"] for pod in json.loads(done.stdout)["items"]}


def runs(home: Path, rented: Rented) -> int:
    with closing(sqlite3.connect(home / "lessor.db")) as database:
        query = "SELECT count(*) FROM runs WHERE stack = ? AND operation = 'up'"
        return int(database.execute(query, (namespace_name(rented.lease),)).fetchone()[0])


async def test_a_lost_home_comes_back_from_a_backup_and_its_leases_go_on(world: World, tmp_path: Path) -> None:
    provider = await world.run_provider()
    home, file = Path(world.provider_env()["AP_HOME"]), tmp_path / "lessor.zip"
    one, later = await rent(world, sdl_of(EXAMPLES / "web.yaml")), None
    try:
        await deploy(world, provider, one)
        made = await lessor(world, "backup", str(file), "--json")
        assert made.returncode == 0, made.stderr
        assert json.loads(made.stdout)["files"] > 10
        running = await lessor(world, "restore", str(file), "--replace")
        assert running.returncode == 2 and "a provider runs" in running.stderr
        later = await rent(world, sdl_of(EXAMPLES / "demo.yaml"))
        await deploy(world, provider, later)
        before = await asyncio.to_thread(pods, world, one), await asyncio.to_thread(pods, world, later)
        await provider.stop(number=signal.SIGKILL)
        await asyncio.to_thread(shutil.rmtree, home)
        done = await lessor(world, "restore", str(file))
        assert done.returncode == 0, done.stderr
        assert runs(home, one) == 1, "the history is there again"
        provider = await world.run_provider()
        for rented in (one, later):
            await provider.wait_for("lease.state", lease=str(rented.lease), phase="running", seconds=2 * PATIENCE_S)
        assert (await asyncio.to_thread(pods, world, one), await asyncio.to_thread(pods, world, later)) == before
        assert runs(home, one) == 1, "nothing was applied again"
        for rented in (one, later):
            await close(world, provider, rented)
        assert await leftovers(world, one.lease, later.lease) == ()
    finally:
        await provider.stop()
