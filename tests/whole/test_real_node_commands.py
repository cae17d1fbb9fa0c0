"""The commands that start a real node do what a newcomer expects, and leave nothing, however they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from devnet.children import bound_to_parent
from devnet.errors import DevnetError
from devnet.node import missing_requirements
from devnet.tools import CONTROL_PLANE, ENGINE, NODE, ensure_tools
from tests.world.patience import PATIENCE_S, until
from tests.world.processes import kill_processes_of, processes_of, start_process

pytestmark = [pytest.mark.xdist_group("demo"), pytest.mark.devnet, pytest.mark.long]
CHECKOUT = Path(__file__).resolve().parents[2]
LESSOR = str(Path(sys.executable).with_name("lessor"))
LAST_LINE = "Ctrl-C stops it."


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """The folder of a real node, of which nothing is left at the end. Skipped where the machine cannot have one."""
    refuse = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
    if problems := missing_requirements(build=False):
        refuse("; ".join(problems))
    try:
        ensure_tools([*CONTROL_PLANE, *ENGINE, *NODE], build=False)
    except DevnetError as error:
        refuse(str(error))
    folder = tmp_path / "real"
    try:
        yield folder
        assert processes_of(folder) == {}
    finally:
        kill_processes_of(folder)


def start(*arguments: str) -> subprocess.Popen[str]:
    return start_process(
        [LESSOR, *arguments],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=bound_to_parent(),
    )


def started(data: Path) -> subprocess.Popen[str]:
    """`lessor devnet up --node real`, once its node is ready."""
    process = start("devnet", "up", "--node", "real", "--nodes", "1", "--data", str(data))
    printed = ""
    assert process.stdout is not None
    for line in process.stdout:
        printed += line
        if line.strip() == LAST_LINE:
            return process
    pytest.fail(printed)


def lessor(*arguments: str, words: Sequence[str] = ()) -> tuple[int, str]:
    """Exit code and output of `lessor devnet ARGUMENTS -- WORDS`."""
    argv = [LESSOR, "devnet", *arguments, *(["--", *words] if words else [])]
    done = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return done.returncode, done.stdout + done.stderr


def cgroups(data: Path) -> list[Path]:
    return [Path(line) for line in (data / "enclosure" / "cgroups").read_text().splitlines()]


def test_a_real_node_beside_a_simulated_one_runs_until_it_is_interrupted(data: Path) -> None:
    process = started(data)
    made, folder = cgroups(data), ("--data", str(data))
    code, printed = lessor("status", *folder)
    assert (code, json.loads(printed)["phase"]) == (0, "ready")
    code, printed = lessor("exec", *folder, words=["kubectl", "get", "nodes", "-o", "name"])
    assert (code, sorted(printed.split())) == (0, ["node/node-1", "node/real-1"])
    assert lessor("exec", *folder, words=["sh", "-c", "exit 7"])[0] == 7
    code, printed = lessor("up", *folder)
    assert code != 0 and "one runs there already" in printed
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE_S) == 0
    assert made and not any(path.exists() for path in made)
    code, printed = lessor("status", *folder)
    assert (code != 0, json.loads(printed)["phase"]) == (True, "stopped")


def test_down_ends_a_real_node_and_the_next_one_goes_on_in_its_folder(data: Path) -> None:
    first, folder = started(data), ("--data", str(data))
    made = cgroups(data)
    assert lessor("exec", *folder, words=["kubectl", "create", "namespace", "kept"])[0] == 0
    assert lessor("down", *folder) == (0, "stopped\n")
    assert first.wait(timeout=PATIENCE_S) == 0
    assert first.stdout is not None and first.stdout.read().endswith("stopped by `lessor devnet down`\n")
    assert not any(path.exists() for path in made)
    second = started(data)
    assert lessor("exec", *folder, words=["kubectl", "get", "namespace", "kept"])[0] == 0
    second.kill()
    second.wait()
    until(lambda: processes_of(data) == {})
    assert lessor("down", *folder)[0] == 0
    assert not any(path.exists() for path in cgroups(data))


def test_the_demo_on_a_real_node_goes_through_all_its_steps_and_leaves_nothing(data: Path) -> None:
    process = start("demo", "--node", "real", "--data", str(data))
    printed, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, printed
    assert "The tenant closes the deployment; nothing is left" in printed
    record = data.with_name("real-enclosure") / "cgroups"
    assert not any(Path(line).exists() for line in record.read_text().splitlines())
