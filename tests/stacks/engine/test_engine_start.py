"""The start of the engine does not wait for its shared plugin; the end leaves nothing of a start in progress."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stacks.engine import EngineConfig, PulumiEngine
from tests.world.patience import eventually


class _Plugin:
    """A shared plugin whose broker is slow to start."""

    problem = ""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.go = asyncio.Event()

    async def start(self) -> None:
        self.calls.append("start")
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.calls.append("cancelled")
            raise
        self.calls.append("started")

    async def stop(self) -> None:
        self.calls.append("stop")


@pytest.fixture
def engine(tmp_path: Path) -> PulumiEngine:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("{}")
    kubeconfig.chmod(0o600)
    config = EngineConfig(
        data=tmp_path / "engine",
        kubeconfig=kubeconfig,
        pulumi=Path("/bin/true"),
        pulumi_home=tmp_path,
        workers=1,
        engine="stock",
    )
    engine = PulumiEngine(config)
    engine._plugin = _Plugin()  # type: ignore[assignment]
    return engine


async def test_the_start_of_the_plugin_delays_nobody_and_ends_with_the_engine(engine: PulumiEngine) -> None:
    plugin: _Plugin = engine._plugin  # type: ignore[assignment]
    await engine.start(await_plugin=False)
    await engine.start(await_plugin=False)
    await asyncio.sleep(0)
    assert plugin.calls == ["start"], "begun once, and not waited for"
    await engine.close()
    assert plugin.calls == ["start", "cancelled", "stop"]


async def test_a_start_waits_for_the_plugin_unless_told_otherwise(engine: PulumiEngine) -> None:
    plugin: _Plugin = engine._plugin  # type: ignore[assignment]
    start = asyncio.create_task(engine.start())
    await eventually(lambda: plugin.calls == ["start"])
    for _ in range(20):  # passes of the loop, in which a start that does not wait would end
        await asyncio.sleep(0)
    assert not start.done()
    plugin.go.set()
    await start
    assert plugin.calls == ["start", "started"]
    await engine.close()
    assert plugin.calls == ["start", "started", "stop"]
