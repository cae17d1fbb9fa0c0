"""Listeners of programs that ask nobody who calls answer processes of their own user only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devnet.tools import ENGINE, ensure_tools
from stacks.common.listener_guard import is_strangers
from stacks.common.listeners import FENCED, fence_problem
from tests.stacks.common.listening import answered, calls_are_served, listeners_of
from tests.world.patience import until
from tests.world.processes import start_process
from tests.world.users import STRANGER, needs_root

needs_fence = pytest.mark.skipif(bool(fence_problem()), reason="this system allows no fence")
ROOT = Path(__file__).parents[3]
HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"


def row(local: str, remote: str, state: str, user: int, inode: int) -> str:
    return f"   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 {user:5d} 0 {inode} 1"


@pytest.mark.parametrize(
    ("peer", "strange"),
    [
        (("01", 1000), False),
        (("01", 1001), True),
        (("06", 0), True),  # closed by its process: nobody knows whose it was
        (None, True),
    ],
)
def test_only_an_open_socket_of_the_same_user_is_no_stranger(peer: tuple[str, int] | None, strange: bool) -> None:
    table = [
        HEADER,
        row("0100007F:1000", "00000000:0000", "0A", 1000, 1),
        row("0100007F:1000", "0100007F:2000", "01", 1000, 2),
    ]
    table += [row("0100007F:2000", "0100007F:1000", peer[0], peer[1], 3)] if peer else []
    assert is_strangers("2", table, 1000) is strange
    both_families = [line.replace("0100007F:", "0000000000000000FFFF00000100007F:") for line in table[3:]]
    assert is_strangers("2", [*table[:3], HEADER, *both_families], 1000) is strange


def test_a_socket_that_was_dialled_is_not_judged_whoever_serves_it() -> None:
    table = [
        HEADER,
        row("0100007F:1927", "00000000:0000", "0A", 0, 1),
        row("0100007F:1927", "0100007F:2000", "01", 0, 2),
        row("0100007F:2000", "0100007F:1927", "01", 1000, 3),
    ]
    assert is_strangers("3", table, 1000) is False
    assert is_strangers("unknown", table, 1000) is False


@needs_root
@needs_fence
@pytest.mark.devnet
def test_the_kubernetes_plugin_answers_no_other_user() -> None:
    toolbox = ensure_tools(ENGINE)
    plugin = str(toolbox.program("pulumi-resource-kubernetes"))
    ports = []
    for prefix in ((), FENCED):
        process = start_process(
            [*prefix, plugin, "127.0.0.1:1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert process.stdout is not None
        ports.append(int(process.stdout.readline()))
    bare, fenced = ports
    assert [answered(bare), answered(bare, STRANGER)] == [True, True], "the stock plugin serves everybody"
    assert [answered(fenced), answered(fenced, STRANGER)] == [True, False]
    assert [answered(fenced), answered(fenced, STRANGER)] == [True, False], "and goes on serving its own user"


UPDATE = """
import os, sys, time
from pathlib import Path
from stacks.common.listeners import fence_listeners
if sys.argv[2] == "guarded":
    assert fence_listeners() == ""
from stacks.worker.own_servers import fence_sdk_servers
from pulumi import automation
fence_sdk_servers()
folder = Path(sys.argv[1])

def program():
    (folder / "running").touch()
    while not (folder / "enough").exists():
        time.sleep(0.05)

workspace = automation.LocalWorkspaceOptions(env_vars={
    "PULUMI_BACKEND_URL": f"file://{folder}", "PULUMI_CONFIG_PASSPHRASE": "", "PULUMI_SKIP_UPDATE_CHECK": "true",
    "PULUMI_HOME": str(folder / "home"),
})
stack = automation.create_or_select_stack("one", "fence", program=program, opts=workspace)
print(stack.up(on_event=lambda event: None).summary.result)
"""


@needs_root
@needs_fence
@pytest.mark.devnet
@pytest.mark.parametrize("guard", ["guarded", "without the guard"])
def test_language_server_events_monitor_and_engine_of_an_update_answer_no_other_user(
    guard: str, tmp_path: Path
) -> None:
    toolbox = ensure_tools(ENGINE)
    path = f"{toolbox.program('pulumi').parent}:{os.environ['PATH']}"
    argv = [sys.executable, "-c", UPDATE, str(tmp_path), guard]
    process = start_process(argv, cwd=ROOT, env={**os.environ, "PATH": path}, stdout=subprocess.PIPE, text=True)
    until(lambda: (tmp_path / "running").exists() or process.poll() is not None)
    found = listeners_of(process.pid)
    served = {port: (answered(port), answered(port, STRANGER)) for port, name in found.items() if name == "pulumi"}
    found = {port: name for port, name in found.items() if name}
    own = {port: (calls_are_served(port), calls_are_served(port, STRANGER)) for port in found.keys() - served.keys()}
    (tmp_path / "enough").touch()
    assert process.stdout is not None
    assert process.stdout.read().strip() == "succeeded"
    assert len(served) >= 2, f"the monitor and the engine are among {found}"
    assert set(served.values()) == {(True, guard != "guarded")}, "only the guard keeps strangers from Pulumi's own"
    assert len(own) == 2, f"the language server and the receiver of events are among {found}"
    assert set(own.values()) == {(True, False)}
