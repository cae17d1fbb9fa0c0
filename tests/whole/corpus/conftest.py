"""The corpus on the devnet: several documents are alive at once, and each test waits for its own.

A test alone would mostly wait (for pods, for a namespace to go), so the documents that come after it are begun before
it ends, by whichever process of the session comes first.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from devnet.controlplane import ControlPlane
from devnet.tools import Toolbox
from provider.inventory.reading import node
from provider.kube.client import KubeCluster
from provider.protocols.cluster import NODE
from stacks.engine import EngineConfig, PulumiEngine
from tests.conftest import DevnetCluster
from tests.data import SDL
from tests.whole.corpus.documents import NEVER_BID, NODES, SAMPLE, leases_of, valid_names
from tests.whole.corpus.live import Failed, Timings, live_and_die

_AT_ONCE = 6
"""Documents that use the engine at one time: more than it has workers, so that none waits for pods."""
_TOLD = "corpus seconds"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a document."""
    if "document" not in metafunc.fixturenames:
        return
    names = [name for name in valid_names() if name not in NEVER_BID]
    params = [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.long) for name in names]
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
    call = getattr(item, "callspec", None) if item.path.parent == Path(__file__).parent else None
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
        workers=max(2, 4 // processes),
        resident=toolbox.program("lessor-engine"),
    )
    engine = PulumiEngine(config)
    yield engine
    await engine.close()


class Lives:
    """Documents being lived through, each by one process of the session: whoever claims it first begins it.

    `live` takes a name and returns seconds by step. `folder` is what the processes share: a folder for each claimed
    document, with `end.json` in it when it has ended.
    """

    def __init__(self, queue: list[str], *, folder: Path, live: Callable[[str], Awaitable[Timings]]) -> None:
        self._queue = queue
        self._folder = folder
        self._live = live
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def wait(self, name: str) -> Timings:
        """When that document has ended; begins those that come after it. Raises `Failed` with what went wrong."""
        position = self._queue.index(name)
        for each in self._queue[position : position + 2 * _AT_ONCE]:
            if self._claim(each):
                self._tasks[each] = asyncio.create_task(self._tell_end(each))
        while not (end := self._folder / name / "end.json").exists():
            await asyncio.sleep(0.2)
        told = json.loads(end.read_bytes())
        if told["problem"]:
            raise Failed(told["problem"])
        return Timings(told["timings"])

    def _claim(self, name: str) -> bool:
        try:
            (self._folder / name).mkdir(parents=True)
        except FileExistsError:
            return False
        return True

    async def _tell_end(self, name: str) -> None:
        told: dict[str, Any] = {"problem": "it was begun by a process that ended", "timings": {}}
        try:
            told = {"problem": "", "timings": await self._live(name)}
        except Exception as error:
            told["problem"] = f"{type(error).__name__}: {error}"
        finally:
            fresh = self._folder / name / "end.new"
            fresh.write_text(json.dumps(told))
            fresh.rename(fresh.with_name("end.json"))

    async def finish(self, *, early: bool) -> None:
        """What was begun for tests of other processes comes to its end, unless the run was ended early."""
        for task in self._tasks.values() if early else ():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def lives(
    request: pytest.FixtureRequest,
    corpus_cluster: DevnetCluster,
    cluster: KubeCluster,
    engine: PulumiEngine,
) -> AsyncIterator[Lives]:
    every, room = valid_names(), asyncio.Semaphore(_AT_ONCE)
    found = [node(obj) for obj in await cluster.list(NODE)]
    nodes = [item for item in found if item is not None]  # as the provider's inventory reads them
    api_server = corpus_cluster.api_server.removeprefix("https://")

    async def live(name: str) -> Timings:
        text = (SDL / f"{name}.yaml").read_bytes()
        specs = leases_of(name, text, number=every.index(name), nodes=nodes, api_server=api_server)
        started, timings = time.monotonic(), Timings()
        async with room:
            life = live_and_die(specs, engine=engine, cluster=cluster, timings=timings, read_back=name not in SAMPLE)
            await anext(life)
        async for _ in life:
            pass
        return timings | {"whole": time.monotonic() - started}

    queue = [name for item in request.session.items if (name := _document_of(item))]
    lives = Lives(queue, folder=corpus_cluster.plane.data.parent / "corpus-lives", live=live)
    yield lives
    await lives.finish(early=bool(request.session.shouldstop or request.session.shouldfail))


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
