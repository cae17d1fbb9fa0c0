"""The demo as a command: it runs all steps, and no process is left however it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from devnet.children import bound_to_parent
from devnet.tools import Toolbox
from lease.exit_codes import TROUBLE
from tests.world.patience import PATIENCE_S, until
from tests.world.processes import kill_processes_of, processes_of, start_process

# each has a world of its own: no reason to wait for those who share one
pytestmark = [pytest.mark.xdist_group("demo"), pytest.mark.devnet]
CHECKOUT = Path(__file__).resolve().parents[2]

TWO_GROUPS = """
version: "2.0"
services:
  web: {image: "nginx:1", expose: [{port: 80, to: [{global: true}]}]}
  api: {image: "nginx:1", expose: [{port: 80, to: [{global: true}]}]}
profiles:
  compute:
    small: {resources: {cpu: {units: 0.1}, memory: {size: 128Mi}, storage: {size: 128Mi}}}
  placement:
    west: {pricing: {small: {denom: uact, amount: 1000}}}
    east: {pricing: {small: {denom: uact, amount: 1000}}}
deployment:
  web: {west: {profile: small, count: 1}}
  api: {east: {profile: small, count: 1}}
"""


def start(data: Path, toolbox: Toolbox, *options: str, shell: str = "") -> subprocess.Popen[str]:
    """`shell`: what a shell does before it becomes the demo."""
    command = [str(Path(sys.executable).with_name("lessor")), "demo", "--data", str(data), *options]
    if shell:
        command = ["sh", "-c", f'{shell}; exec "$@"', "sh", *command]
    return start_process(
        command,
        cwd=CHECKOUT,
        env=toolbox.env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=bound_to_parent(),
    )


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """Output up to the line with `words`; fails when it ends before."""
    said = ""
    assert process.stdout is not None
    for line in process.stdout:
        said += line
        if words in line:
            return said
    pytest.fail(f"the demo ended before it said {words!r}:\n{said}")


def wait_for_no_process(data: Path) -> None:
    """Returns when nothing that names the folder lives; what lives on all the same is killed."""
    try:
        until(lambda: not processes_of(data))
    except AssertionError:
        pytest.fail(f"still there: {kill_processes_of(data)}")


@pytest.mark.parametrize(
    ("moment", "number", "shell"),
    [
        # while the cluster program runs
        pytest.param("RPC http", signal.SIGKILL, "", marks=pytest.mark.long),
        # while a lease stack is being created: the kernel ends all, whatever the demo does
        pytest.param("PUT /deployment", signal.SIGKILL, "", marks=pytest.mark.long),
        # while the control plane starts
        pytest.param("1. The devnet", signal.SIGINT, "", marks=pytest.mark.long),
        # as a shell without job control starts what it does not wait for
        ("PUT /deployment", signal.SIGINT, "trap '' INT"),
    ],
)
def test_whatever_ends_the_demo_leaves_no_process(
    toolbox: Toolbox, tmp_path: Path, moment: str, number: signal.Signals, shell: str
) -> None:
    data = tmp_path / "demo"
    process = start(data, toolbox, shell=shell)
    read_until(process, moment)
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == (130 if number is signal.SIGINT else -number)
    wait_for_no_process(data)


@pytest.mark.long  # an order without a bid is told the same way, and the words are those of tests/devnet/test_tenant.py
def test_a_price_that_the_chain_refuses_is_reported_with_its_message_and_a_remedy(
    toolbox: Toolbox, tmp_path: Path
) -> None:
    sdl = tmp_path / "uakt.yaml"
    sdl.write_text((CHECKOUT / "examples" / "web.yaml").read_text().replace("uact", "uakt"))
    process = start(tmp_path / "demo", toolbox, "--sdl", str(sdl))
    said, _ = process.communicate(timeout=2 * PATIENCE_S)
    assert process.returncode == TROUBLE
    assert "denom" in said
    assert "DENOM=uact" in said


def test_an_invalid_sdl_is_reported_before_anything_starts(toolbox: Toolbox, tmp_path: Path) -> None:
    sdl = tmp_path / "broken.yaml"
    sdl.write_text("version: '2.0'\nservices: 7\n")
    process = start(tmp_path / "demo", toolbox, "--sdl", str(sdl))
    said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "broken.yaml:2" in said
    assert not (tmp_path / "demo").exists()


@pytest.mark.long  # `bid explain` gives the same reasons
def test_an_order_without_a_bid_is_reported_with_the_provider_s_reasons(toolbox: Toolbox, tmp_path: Path) -> None:
    sdl = tmp_path / "h200.yaml"
    sdl.write_text((CHECKOUT / "examples" / "gpu.yaml").read_text().replace("model: h100", "model: h200"))
    sdl.write_text(sdl.read_text().replace("model: a100", "model: b200"))
    process = start(tmp_path / "demo", toolbox, "--sdl", str(sdl))
    said, _ = process.communicate(timeout=2 * PATIENCE_S)
    assert process.returncode == TROUBLE
    assert "there will be no bid for order" in said
    assert "too little gpu" in said
    wait_for_no_process(tmp_path / "demo")


@pytest.mark.long  # the story with one group is told by tests/devnet/borrowed
def test_a_deployment_of_two_groups_passes_all_steps(toolbox: Toolbox, tmp_path: Path) -> None:
    """Only the first group changes in the update: the other one's lease has nothing to say."""
    sdl = tmp_path / "two.yaml"
    sdl.write_text(TWO_GROUPS)
    process = start(tmp_path / "demo", toolbox, "--sdl", str(sdl))
    said, _ = process.communicate(timeout=240)
    assert process.returncode == 0, said
    assert "ledger: no reservation" in said
