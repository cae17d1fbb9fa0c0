"""An engine on the session's control plane, and small Pulumi projects for the stock command line."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import lightkube
import pytest
import pytest_asyncio
from lightkube.config.kubeconfig import KubeConfig

from devnet.tools import Toolbox
from stacks.engine import EngineConfig, PulumiEngine


@pytest.fixture(scope="session")
def client(devnet_cluster: Any) -> Iterator[lightkube.Client]:
    client = lightkube.Client(KubeConfig.from_file(devnet_cluster.kubeconfig).get())
    yield client
    client.close()


def _config(cluster: Any, toolbox: Toolbox, folder: Path) -> EngineConfig:
    return EngineConfig(
        data=folder / "engine",
        kubeconfig=cluster.kubeconfig,
        pulumi=toolbox.program("pulumi"),
        pulumi_home=toolbox.pulumi_home,
        workers=2,
        history=2,
        resident=toolbox.program("lessor-engine"),
    )


@pytest.fixture(scope="session")
def shared_config(devnet_cluster: Any, toolbox: Toolbox, tmp_path_factory: pytest.TempPathFactory) -> EngineConfig:
    return _config(devnet_cluster, toolbox, tmp_path_factory.mktemp("shared"))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_engine(shared_config: EngineConfig) -> AsyncIterator[PulumiEngine]:
    """One engine for all tests that leave it usable: its start costs more than most of them."""
    engine = PulumiEngine(shared_config)
    yield engine
    await engine.close()


@pytest.fixture(scope="session")
def stock_config(devnet_cluster: Any, toolbox: Toolbox, tmp_path_factory: pytest.TempPathFactory) -> EngineConfig:
    """Of the engine whose operations command lines run."""
    config = _config(devnet_cluster, toolbox, tmp_path_factory.mktemp("stock"))
    return config.model_copy(update={"engine": "stock"})


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stock_engine(stock_config: EngineConfig) -> AsyncIterator[PulumiEngine]:
    """One for all tests that leave it usable."""
    engine = PulumiEngine(stock_config)
    yield engine
    await engine.close()


@pytest.fixture
def own_config(devnet_cluster: Any, toolbox: Toolbox, tmp_path: Path) -> EngineConfig:
    """Of an engine that the test makes."""
    return _config(devnet_cluster, toolbox, tmp_path)


@pytest.fixture
def config(own_config: EngineConfig) -> EngineConfig:
    return own_config


@pytest.fixture
async def engine(config: EngineConfig) -> AsyncIterator[PulumiEngine]:
    engine = PulumiEngine(config)
    yield engine
    await engine.close()


@pytest.fixture
def project(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a Pulumi project whose program is the given text."""

    def make(program: str) -> Path:
        folder = tmp_path / "project"
        folder.mkdir()
        (folder / "Pulumi.yaml").write_text("name: trial\nruntime: python\n")
        (folder / "__main__.py").write_text(program)
        return folder

    return make


@pytest.fixture
def cli(toolbox: Toolbox, tmp_path: Path) -> dict[str, str]:
    """Environment of a stock command line with a backend of its own."""
    (tmp_path / "backend").mkdir()
    return toolbox.env() | {
        "PULUMI_BACKEND_URL": f"file://{tmp_path / 'backend'}",
        "PULUMI_CONFIG_PASSPHRASE": "for-this-test-only",
    }
