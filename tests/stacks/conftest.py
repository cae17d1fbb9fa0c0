"""One control plane and one toolbox for all of these tests."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import lightkube
import pytest
from lightkube.config.kubeconfig import KubeConfig

from devnet.controlplane import ControlPlane
from devnet.errors import ToolsMissing
from devnet.tools import Toolbox, ensure_tools
from stacks.engine import EngineConfig, PulumiEngine


@pytest.fixture(scope="session")
def toolbox() -> Toolbox:
    try:
        return ensure_tools(build=False)
    except ToolsMissing as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"{missing}; run `make tools`")


@pytest.fixture(scope="session")
def plane(toolbox: Toolbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Shared by all workers of a run: their base folders are siblings."""
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    with ControlPlane.share(folder / "controlplane", toolbox) as shared:
        yield shared


@pytest.fixture(scope="session")
def client(plane: ControlPlane) -> lightkube.Client:
    return lightkube.Client(KubeConfig.from_file(plane.kubeconfig).get())


@pytest.fixture
def config(plane: ControlPlane, toolbox: Toolbox, tmp_path: Path) -> EngineConfig:
    return EngineConfig(
        data=tmp_path / "engine",
        kubeconfig=plane.kubeconfig,
        pulumi=toolbox.program("pulumi"),
        pulumi_home=toolbox.pulumi_home,
        workers=2,
    )


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
