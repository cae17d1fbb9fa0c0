"""The demo on the user's cluster, as a command: it runs all steps and leaves the cluster unchanged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from devnet.children import bound_to_parent
from devnet.tools import Toolbox
from lease.exit_codes import TROUBLE
from tests.devnet.borrowed.conftest import Somebody
from tests.whole.test_demo import read_until, wait_for_no_process
from tests.world.patience import PATIENCE_S
from tests.world.processes import start_process

pytestmark = [pytest.mark.devnet, pytest.mark.xdist_group("borrowed")]
CHECKOUT = Path(__file__).resolve().parents[3]


def start(somebody: Somebody, data: Path, toolbox: Toolbox, *options: str) -> subprocess.Popen[str]:
    """The command of a person who has Pulumi and nothing to build with: an empty cache shows that nothing is built."""
    argv = [str(Path(sys.executable).with_name("lessor")), "demo", "--data", str(data)]
    env = toolbox.env() | {"LESSOR_CACHE": str(data.parent / "empty-cache")}
    return start_process(
        [*argv, "--kubeconfig", str(somebody.plane.kubeconfig), *options],
        cwd=CHECKOUT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=bound_to_parent(),
    )


@pytest.fixture
def before(somebody: Somebody) -> set[str]:
    return somebody.everything()


@pytest.mark.long
def test_the_demo_runs_all_steps_and_leaves_the_cluster_unchanged(somebody, toolbox, tmp_path, before):
    data = tmp_path / "demo"
    process = start(somebody, data, toolbox, "--yes")
    said, _ = process.communicate(timeout=280)
    assert process.returncode == 0, said
    plan = said[: said.index("A simulated chain starts beside your cluster")]
    for made in ("namespaces lessor-demo-", "manifests.akash.network", "lessor-provider", "ingress class", "node-1"):
        assert made in plan, "it is told before it is made"
    assert "changes a variable; Pulumi previews" in said
    assert "no object of the demo is left" in said
    assert somebody.everything() == before
    assert [path.name for path in data.iterdir()] == ["provider.log"], "no credentials stay behind"
    assert not (tmp_path / "empty-cache").exists(), "nothing was built"


@pytest.mark.long
@pytest.mark.parametrize(
    "moment",
    [
        "+ namespaces",  # what was told is perhaps being made
        " created",  # the cluster stack is being made
        "PUT /deployment",  # the lease's stack is being made
    ],
)
def test_an_interrupted_demo_leaves_the_cluster_unchanged(somebody, toolbox, tmp_path, before, moment):
    data = tmp_path / "demo"
    process = start(somebody, data, toolbox, "--yes")
    read_until(process, moment)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=280)
    assert process.returncode == 130, said
    wait_for_no_process(data)
    assert somebody.everything() == before


@pytest.mark.long
def test_the_next_demo_removes_the_objects_of_a_killed_one(somebody, toolbox, tmp_path, before):
    data = tmp_path / "demo"
    process = start(somebody, data, toolbox, "--yes")
    read_until(process, "PUT /deployment")
    process.kill()
    process.communicate()
    wait_for_no_process(data)
    assert somebody.everything() != before
    again = start(somebody, data, toolbox)
    said, _ = again.communicate(timeout=280)
    assert again.returncode == TROUBLE
    assert "was interrupted: removing its objects" in said
    assert "there is no terminal to ask at; give --yes" in said
    assert "nothing was made in the cluster" in said
    assert somebody.everything() == before


def test_without_agreement_nothing_is_made(somebody, toolbox, tmp_path, before):
    process = start(somebody, tmp_path / "demo", toolbox)
    said, _ = process.communicate(timeout=2 * PATIENCE_S)
    assert process.returncode == TROUBLE, said
    assert "The demo will make these objects there" in said
    assert list((tmp_path / "demo").iterdir()) == []
    assert somebody.everything() == before


@pytest.mark.parametrize(
    "options",
    [
        ["--context", "nowhere", "there is no context 'nowhere'; there are: devnet"],
        ["--sdl", "examples/demo.yaml", "leases an IP address"],
    ],
)
def test_impossible_options_are_refused_before_anything_is_made(somebody, toolbox, tmp_path, before, options):
    *options, told = options
    process = start(somebody, tmp_path / "demo", toolbox, "--yes", *options)
    said, _ = process.communicate(timeout=2 * PATIENCE_S)
    assert process.returncode == TROUBLE, said
    assert told in said
    assert somebody.everything() == before


def test_without_pulumi_all_missing_parts_are_printed(somebody, tmp_path, before):
    env = {**os.environ, "PATH": "/usr/bin:/bin"}
    argv = [str(Path(sys.executable).with_name("lessor")), "demo", "--data", str(tmp_path / "demo"), "--yes"]
    argv += ["--kubeconfig", str(somebody.plane.kubeconfig)]
    done = subprocess.run(argv, cwd=CHECKOUT, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == TROUBLE
    assert "builds nothing, and these parts are missing:" in done.stdout
    assert "pulumi 3.272.0 or newer on PATH" in done.stdout
    assert somebody.everything() == before
