"""A control plane that stands for the user's cluster: no MetalLB, and nodes without a provider's labels."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from devnet.controlplane import ControlPlane
from devnet.errors import DevnetError
from devnet.tools import CONTROL_PLANE, Toolbox, ensure_tools
from tests.devnet.tools.family import script


@dataclass(frozen=True)
class Somebody:
    plane: ControlPlane

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        argv = [str(self.plane.toolbox.program("kubectl")), "--kubeconfig", str(self.plane.kubeconfig), *args]
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def everything(self) -> set[str]:
        """Names of all objects without a namespace, of whatever kind; and the nodes' labels of Akash."""
        listed = self.kubectl("api-resources", "--namespaced=false", "--verbs=list", "-o", "name").split()
        kinds = ",".join(kind for kind in listed if kind != "componentstatuses")
        labels = self.kubectl("get", "nodes", "--show-labels", "--no-headers").split()
        return {*self.kubectl("get", kinds, "-o", "name").split(), *(each for each in labels if "akash" in each)}


@pytest.fixture(scope="session")
def control_plane_tools() -> Toolbox:
    try:
        return ensure_tools(CONTROL_PLANE, build=False)
    except DevnetError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def somebody(control_plane_tools: Toolbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Somebody]:
    folder = tmp_path_factory.mktemp("somebody")
    (folder / "share" / "crds").mkdir(parents=True)
    nothing = script(folder / "bin" / "metallb-controller", "exec sleep 1000000")
    tools = control_plane_tools.with_program("metallb-controller", nothing)
    with ControlPlane.start(folder / "plane", tools) as plane:
        made = Somebody(plane)
        made.kubectl("label", "nodes", "--all", "akash.network-")
        yield made


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"
