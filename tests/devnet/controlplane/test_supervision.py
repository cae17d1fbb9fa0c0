"""Whether a control plane runs is asked of a lock, which works across PID namespaces. No control plane starts here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devnet.children import started_at
from devnet.controlplane import is_supervised
from devnet.controlplane.holders import supervisor_lock
from devnet.controlplane.state import State, write_state
from lease.exit_codes import TROUBLE
from tests.world.processes import start_process

LESSOR = [sys.executable, "-c", "from provider.cli import main; main()", "devnet"]
SUPERVISOR = """
import fcntl, os, sys
fcntl.fcntl(int(sys.argv[1]), fcntl.F_GETFD)
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has the supervisor's lock, as one in an enclosure: the state names a pid of another namespace."""
    with supervisor_lock(tmp_path) as lock:
        assert lock is not None
        argv = [sys.executable, "-c", SUPERVISOR, str(lock)]
        process = start_process(argv, pass_fds=[lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"\n"
    write_state(tmp_path, State("ready", pid=os.getpid(), since=1))
    yield process
    process.kill()
    process.communicate()


def lessor(command: str, data: Path, *options: str) -> tuple[int, str]:
    """Exit code and output of `lessor devnet COMMAND`."""
    argv = [*LESSOR, command, "--data", str(data), *options]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_lock_lasts_until_the_supervisor_ends(tmp_path: Path, supervisor: subprocess.Popen[bytes]) -> None:
    assert is_supervised(tmp_path)
    with supervisor_lock(tmp_path) as second:
        assert second is None
    supervisor.kill()
    supervisor.wait()
    assert not is_supervised(tmp_path)
    with supervisor_lock(tmp_path) as next_one:
        assert next_one is not None


def test_a_question_does_not_keep_a_start_from_its_lock(tmp_path: Path) -> None:
    assert not is_supervised(tmp_path), "no supervisor ever ran"
    for _ in range(3):
        with supervisor_lock(tmp_path) as lock:
            assert lock is not None and is_supervised(tmp_path)
        assert not is_supervised(tmp_path)


def test_status_knows_a_control_plane_whose_process_cannot_be_seen(
    tmp_path: Path, supervisor: subprocess.Popen[bytes]
) -> None:
    code, printed = lessor("status", tmp_path)
    assert (code, json.loads(printed)["phase"]) == (0, "ready")
    supervisor.kill()
    supervisor.wait()
    code, printed = lessor("status", tmp_path)
    assert (code, json.loads(printed)["phase"]) == (1, "stopped")


@pytest.mark.devnet
def test_a_second_control_plane_is_refused_although_the_first_ones_process_cannot_be_seen(
    tmp_path: Path, supervisor: subprocess.Popen[bytes]
) -> None:
    code, printed = lessor("up", tmp_path)
    assert code == TROUBLE and "one runs there already; stop it with `lessor devnet down`" in printed
    assert supervisor.poll() is None


def test_down_stops_a_control_plane_beside_the_folder_of_an_earlier_real_node(tmp_path: Path) -> None:
    (tmp_path / "enclosure").mkdir()
    process = start_process(["sleep", "3600"])
    write_state(tmp_path, State("ready", process.pid, started_at(process.pid)))
    assert lessor("down", tmp_path) == (0, "stopped\n")
    assert process.wait(timeout=10)
