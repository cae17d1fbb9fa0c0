"""The ends of a control plane: none of its processes is left, whichever process is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from devnet.children import start_bound
from devnet.controlplane import ControlPlane, read_state, stop_supervisor
from devnet.errors import ControlPlaneFailed
from lease.exit_codes import TROUBLE
from tests.world.patience import PATIENCE_S, until
from tests.world.processes import ends_with_test, kill_processes_of, line_of, processes_of, start_process

pytestmark = pytest.mark.devnet

LESSOR = [sys.executable, "-c", "from provider.cli import main; main()"]


def start_command(data: Path, *options: str) -> subprocess.Popen:
    with (data.parent / "command.log").open("ab") as log:
        argv = [*LESSOR, "devnet", "up", "--data", str(data), "--nodes", "1", *options]
        return ends_with_test(start_bound(argv, output=log))


def lessor(command: str, data: Path) -> tuple[int, str]:
    """Exit code and output of `lessor devnet <command>`."""
    argv = [*LESSOR, "devnet", command, "--data", str(data)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return done.returncode, done.stdout


def phase(data: Path) -> str:
    state = read_state(data)
    return state.phase if state else ""


def starting(data: Path) -> bool:
    """The supervisor, etcd and the API server run, and nothing is ready yet."""
    state = read_state(data)
    return state is not None and {"etcd", "kube-apiserver"} <= state.members.keys()


@pytest.fixture
def data(tmp_path, toolbox):
    folder = tmp_path / "plane"
    yield folder
    try:
        stop_supervisor(folder)  # of a test that failed on its way
    finally:
        left = kill_processes_of(folder)
    assert left == {}


@pytest.mark.long
def test_down_stops_a_detached_control_plane_and_the_next_one_has_its_objects(data, toolbox):
    kubectl = [str(toolbox.program("kubectl")), "--kubeconfig", str(data / "admin.kubeconfig")]
    assert start_command(data, "--detach").wait(timeout=PATIENCE_S) == 0
    code, told = lessor("status", data)
    assert (code, json.loads(told)["phase"]) == (0, "ready")
    assert start_command(data).wait(timeout=PATIENCE_S) == TROUBLE
    assert "one runs there already" in (data.parent / "command.log").read_text()
    subprocess.run([*kubectl, "create", "namespace", "kept"], check=True, timeout=PATIENCE_S)
    assert lessor("down", data) == (0, "stopped\n")
    assert processes_of(data) == {}
    code, told = lessor("status", data)
    assert (code, json.loads(told)["phase"]) == (1, "stopped")

    command = start_command(data)
    until(lambda: phase(data) == "ready")
    subprocess.run([*kubectl, "get", "namespace", "kept"], check=True, timeout=PATIENCE_S)
    os.killpg(command.pid, signal.SIGINT)  # a terminal sends Ctrl-C to the whole group
    assert command.wait(timeout=PATIENCE_S) == 0
    assert processes_of(data) == {}
    assert phase(data) == "stopped"


@pytest.mark.long
def test_a_start_with_fewer_nodes_in_an_earlier_folder_has_only_these_and_down_is_its_regular_end(data, toolbox):
    kubectl = [str(toolbox.program("kubectl")), "--kubeconfig", str(data / "admin.kubeconfig")]

    def nodes() -> list[str]:
        argv = [*kubectl, "get", "nodes", "-o", "name"]
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout.split()

    assert start_command(data, "--detach", "--nodes", "2").wait(timeout=PATIENCE_S) == 0
    real = data.parent / "real.json"  # as a real node registers itself
    real.write_text(json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real-1"}}))
    subprocess.run([*kubectl, "create", "-f", str(real)], check=True, timeout=PATIENCE_S)
    assert nodes() == ["node/node-1", "node/node-2", "node/real-1"]
    assert lessor("down", data) == (0, "stopped\n")
    command = start_command(data, "--nodes", "1")
    until(lambda: phase(data) == "ready")
    assert nodes() == ["node/node-1"]
    assert lessor("down", data) == (0, "stopped\n")
    assert command.wait(timeout=PATIENCE_S) == 0
    assert (data.parent / "command.log").read_text().endswith("stopped by `lessor devnet down`\n")


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGINT])
def test_a_command_that_is_stopped_during_its_start_leaves_no_process(data, number):
    command = start_command(data)
    until(lambda: starting(data))
    os.killpg(command.pid, number)
    assert command.wait(timeout=PATIENCE_S) != 0
    assert processes_of(data) == {}
    assert phase(data) == "stopped"


def test_a_killed_command_leaves_no_process(data):
    command = start_command(data)
    until(lambda: starting(data))
    command.kill()
    command.wait()
    until(lambda: processes_of(data) == {})


@pytest.mark.long
def test_nothing_outlives_the_owner_that_the_environment_names(data, monkeypatch):
    """As after a test that was killed: its commands, and what they left running detached, end with the test run."""
    owner = start_process(["sleep", "3600"])
    monkeypatch.setenv("LESSOR_DEVNET_OWNER", str(owner.pid))
    assert start_command(data, "--detach").wait(timeout=PATIENCE_S) == 0
    assert phase(data) == "ready"
    owner.kill()
    owner.wait()
    until(lambda: processes_of(data) == {})


def test_the_members_end_with_a_killed_supervisor_and_the_command_reports_it(data):
    command = start_command(data)
    until(lambda: starting(data))
    state = read_state(data)
    assert state is not None
    os.kill(state.pid, signal.SIGKILL)
    assert command.wait(timeout=PATIENCE_S) == TROUBLE
    until(lambda: processes_of(data) == {})
    assert "its supervisor ended" in (data.parent / "command.log").read_text()


def test_a_shared_control_plane_runs_until_its_last_holder_ends(data, toolbox):
    sharer = start_process(
        [sys.executable, "-c", SHARER, str(data)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    plane = ControlPlane.share(data, toolbox)
    assert line_of(sharer) == f"{plane.api_server}\n", "both have the same one"
    sharer.kill()
    sharer.communicate()
    time.sleep(0.5)  # the supervisor has heard of it
    assert plane.state().phase == "ready"
    assert plane.state().supervised()
    plane.release()
    assert processes_of(data) == {}
    plane.release()


SHARER = """
import sys
from pathlib import Path
from devnet.children import start_bound
from devnet.controlplane import ControlPlane
from devnet.tools import CONTROL_PLANE, ensure_tools
plane = ControlPlane.share(Path(sys.argv[1]), ensure_tools(CONTROL_PLANE, build=False))
print(plane.api_server, flush=True)
sys.stdin.read()
"""


def test_a_killed_holder_leaves_no_process_even_if_its_child_runs_on(data):
    holder = start_process([sys.executable, "-c", FORKING, str(data)], stdout=subprocess.PIPE, text=True)
    child = int(line_of(holder))
    holder.kill()
    holder.communicate()
    try:
        until(lambda: phase(data) == "stopped")
    finally:
        os.kill(child, signal.SIGKILL)


FORKING = """
import os, sys, time
from pathlib import Path
from devnet.controlplane import ControlPlane
from devnet.tools import CONTROL_PLANE, ensure_tools
plane = ControlPlane.start(Path(sys.argv[1]), ensure_tools(CONTROL_PLANE, build=False))
child = os.fork()  # has the holder's end of the FIFO open too
if child:
    print(child, flush=True)
os.close(1)
time.sleep(3600)
"""


def test_the_end_of_a_member_ends_the_control_plane_and_is_named(data, toolbox):
    broken = toolbox.with_program("kwok", Path("/bin/false"))
    with pytest.raises(ControlPlaneFailed, match=r"kwok ended with 1 \(see kwok.log\)"):
        ControlPlane.start(data, broken)
    assert processes_of(data) == {}
    assert phase(data) == "failed"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"phase": "ready"}', '{"pid": "x"}', "\x00" * 4096])
def test_an_invalid_state_file_counts_as_none(tmp_path, text):
    (tmp_path / "state.json").write_text(text)
    assert read_state(tmp_path) is None
    assert not stop_supervisor(tmp_path)


def test_down_reports_that_nothing_runs_and_succeeds(tmp_path):
    assert lessor("down", tmp_path) == (0, f"nothing runs in {tmp_path}\n")
