"""The corpus on the devnet: several documents are alive at once, and each test waits for its own.

A test alone would mostly wait (for pods, for a namespace to go), so the documents that come after it in this process
are begun before it ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from devnet.controlplane import ControlPlane
from devnet.tools import Toolbox
from provider.cluster import KubeCluster
from provider.inventory.reading import node
from provider.operators.objects import NODE
from stacks.engine import EngineConfig, PulumiEngine
from tests.conftest import DevnetCluster
from tests.corpus.documents import NODES, SAMPLE, leases_of, valid_names
from tests.corpus.live import Timings, live_and_die

_SHARDS = 4
_AT_ONCE = 6
"""Documents that use the engine at one time: more than it has workers, so that none waits for pods."""
_TOLD = "corpus seconds"


def _names() -> list[str]:
    folder = Path(os.environ.get("LESSOR_SHARED") or "../shared")
    return valid_names(folder if folder.is_absolute() else Path(__file__).parents[2] / folder)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a document. Documents of one shard share a process, so that they can be begun ahead of their tests."""
    if "document" not in metafunc.fixturenames:
        return
    names = _names() or list(SAMPLE)
    long = [name for name in names if name not in SAMPLE]
    params = [pytest.param(name, marks=pytest.mark.xdist_group("corpus-sample")) for name in names if name in SAMPLE]
    for index, name in enumerate(long):
        marks = (pytest.mark.long, pytest.mark.xdist_group(f"corpus-{index * _SHARDS // len(long)}"))
        params.append(pytest.param(name, marks=marks))
    metafunc.parametrize("document", params)


@pytest.fixture(scope="session")
def corpus_cluster(
    request: pytest.FixtureRequest, toolbox: Toolbox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DevnetCluster]:
    """The session's control plane for the sample; for everything one of its own, with nodes that hold everything."""
    if all(_document_of(item) in (None, *SAMPLE) for item in request.session.items):
        yield request.getfixturevalue("devnet_cluster")
        return
    base = tmp_path_factory.getbasetemp()
    base = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    with ControlPlane.share(base / "corpus-plane", toolbox, nodes=NODES) as plane:
        yield DevnetCluster(plane, toolbox)


def _document_of(item: pytest.Item) -> str | None:
    call = getattr(item, "callspec", None)
    return call.params.get("document") if call else None


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster(corpus_cluster: DevnetCluster) -> AsyncIterator[KubeCluster]:
    client = KubeCluster(corpus_cluster.kubeconfig)
    yield client
    await client.aclose()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def engine(
    corpus_cluster: DevnetCluster, toolbox: Toolbox, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[PulumiEngine]:
    """As the daemon has it; four workers in all processes of the session together."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    config = EngineConfig(
        data=tmp_path_factory.mktemp("corpus-engine"),
        kubeconfig=corpus_cluster.kubeconfig,
        pulumi=toolbox.program("pulumi"),
        pulumi_home=toolbox.pulumi_home,
        workers=max(1, 4 // processes),
    )
    engine = PulumiEngine(config)
    yield engine
    await engine.close()


class Lives:
    """Documents being lived through. `wait` returns when one has ended, and begins those that come after it."""

    def __init__(self, queue: list[str], *, engine: PulumiEngine, cluster: KubeCluster, make: Any) -> None:
        self._queue = queue
        self._engine = engine
        self._cluster = cluster
        self._make = make
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._tasks: dict[str, asyncio.Task[Timings]] = {}

    async def wait(self, name: str, *, ahead: bool) -> Timings:
        """Seconds by step. Raises what went wrong with that document."""
        position = self._queue.index(name)
        for each in self._queue[position : position + (2 * _AT_ONCE if ahead else 1)]:
            if each not in self._tasks:
                self._tasks[each] = asyncio.create_task(self._live(each))
        return await self._tasks[name]

    async def _live(self, name: str) -> Timings:
        started, timings = time.monotonic(), Timings()
        async with self._room:
            life = live_and_die(
                self._make(name),
                engine=self._engine,
                cluster=self._cluster,
                timings=timings,
                read_back=name not in SAMPLE,
            )
            await anext(life)
        async for _ in life:
            pass
        return timings | {"whole": time.monotonic() - started}

    async def stop(self) -> None:
        """After a run that was ended early."""
        for task in self._tasks.values():
            task.cancel()
        for task in self._tasks.values():
            with suppress(BaseException):
                await task


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def lives(
    request: pytest.FixtureRequest,
    shared: Path,
    corpus_cluster: DevnetCluster,
    cluster: KubeCluster,
    engine: PulumiEngine,
) -> AsyncIterator[Lives]:
    every = valid_names(shared)
    found = [node(obj) for obj in await cluster.list(NODE)]
    nodes = [item for item in found if item is not None]  # as the provider's inventory reads them

    def make(name: str) -> Any:
        return leases_of(
            name,
            (shared / "sdl" / f"{name}.yaml").read_bytes(),
            number=every.index(name),
            nodes=nodes,
            api_server=corpus_cluster.api_server.removeprefix("https://"),
        )

    queue = [name for item in request.session.items if (name := _document_of(item))]
    lives = Lives(queue, engine=engine, cluster=cluster, make=make)
    yield lives
    await lives.stop()


@pytest.hookimpl
def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many documents went through, and where the seconds went (of each step, over all documents)."""
    told = [
        json.loads(value)
        for report in terminalreporter.stats.get("passed", [])
        for key, value in report.user_properties
        if key == _TOLD and report.when == "call"
    ]
    if told:
        steps = sorted({step for timings in told for step in timings})
        terminalreporter.section("corpus on the devnet")
        terminalreporter.line(f"{len(told)} documents applied, unchanged when applied again, and gone")
        for step in steps:
            seconds = sorted(timings.get(step, 0.0) for timings in told)
            middle, longest = seconds[len(seconds) // 2], seconds[-1]
            terminalreporter.line(
                f"{step:>8}: median {middle:5.1f} s, longest {longest:5.1f} s, all {sum(seconds):6.0f} s"
            )
