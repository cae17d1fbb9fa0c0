"""The generator: fresh, up to date, twice at once, and on a broken source."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from tests.devnet.chain.recording import ROOT
from tests.world.patience import PATIENCE_S
from tests.world.processes import start_process

SOURCE = "proto"


@pytest.fixture
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / SOURCE / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_does_nothing_when_nothing_changed(generator: ModuleType, tmp_path: Path) -> None:
    sources = tmp_path / "proto"
    shutil.copytree(ROOT / SOURCE, sources)
    output = tmp_path / "build" / "proto"
    assert generator.generate(sources, output) is True
    made = (output / "akash" / "market" / "v1beta5" / "msg_pb2.py").stat().st_mtime_ns
    assert generator.generate(sources, output) is False
    assert (output / "akash" / "market" / "v1beta5" / "msg_pb2.py").stat().st_mtime_ns == made
    changed = sources / "akash" / "market" / "v1beta5" / "msg.proto"
    changed.write_text(f"{changed.read_text()}\nmessage Another {{}}\n")
    assert generator.generate(sources, output) is True
    assert "Another" in (output / "akash" / "market" / "v1beta5" / "msg_pb2.pyi").read_text()


def test_a_broken_source_leaves_the_last_good_output(generator: ModuleType, tmp_path: Path) -> None:
    sources, output = tmp_path / "proto", tmp_path / "build" / "proto"
    shutil.copytree(ROOT / SOURCE, sources)
    generator.generate(sources, output)
    (sources / "akash" / "cert" / "v1" / "msg.proto").write_text('syntax = "proto3"; message {')
    with pytest.raises(RuntimeError, match="protoc ended with"):
        generator.generate(sources, output)
    assert (output / "akash" / "cert" / "v1" / "msg_pb2.py").exists()
    assert sorted(path.name for path in output.parent.iterdir()) == [".proto.lock", "proto"]


def test_two_at_once_both_find_whole_packages(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; from generate import generate;"
        "generate(Path(sys.argv[1]), Path(sys.argv[2])); sys.path.insert(0, sys.argv[2]);"
        "import akash.market.v1beta5.query_pb2 as q; assert q.__file__.startswith(sys.argv[2])"
    )
    arguments = [sys.executable, "-c", code, str(ROOT / SOURCE), str(tmp_path / "build" / "proto")]
    running = [start_process(arguments, cwd="/") for _ in range(3)]
    assert [process.wait(PATIENCE_S) for process in running] == [0, 0, 0]


def test_the_wheel_holds_our_packages_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PYTHONWARNINGS": ""}, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    top = {name.split("/", 1)[0] for name in names if ".dist-info/" not in name}
    assert top == {"lease", "components", "policies", "stacks", "provider", "devnet", "akash", "k8s"}
    assert {f"{package}/py.typed" for package in top} <= set(names)
    assert [name for name in names if name.endswith(".dist-info/licenses/LICENSE")]
    assert "akash/market/v1beta5/msg_pb2.py" in names
    assert not [name for name in names if name.endswith((".proto", ".pyc"))]
