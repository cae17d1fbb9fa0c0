"""An enclosure starts, reaches nothing of the machine's network, changes nothing of the machine, and ends whole."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from devnet.children import alive
from devnet.errors import EnclosureFailed
from devnet.node import Enclosure
from devnet.node.enclosure import first_process
from devnet.node.network import NODE_ADDRESS, OUTSIDE

DIAL = """
import socket, sys
for address in sys.argv[2:]:
    try:
        socket.create_connection((address, int(sys.argv[1])), timeout=1).close()
        print(address)
    except OSError:
        pass
"""
MACHINE = ("net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet", "vm/overcommit_memory", "kernel/panic")


@pytest.fixture
def enclosure(folder: Path) -> Iterator[Enclosure]:
    with Enclosure.start(folder) as enclosure:
        yield enclosure


def inside(enclosure: Enclosure, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(enclosure.command(argv), capture_output=True, text=True, timeout=30, check=False)


@contextmanager
def sleeper(enclosure: Enclosure) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs inside when this returns."""
    argv = enclosure.command(["sh", "-c", "echo started; exec sleep 600"])
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"started\n"
        yield process


def settings() -> list[str]:
    return [Path("/proc/sys", name).read_text() for name in MACHINE]


def links() -> str:
    return subprocess.run(["ip", "-oneline", "link"], capture_output=True, text=True, check=True).stdout


def cgroups(folder: Path) -> list[Path]:
    return [Path(line) for line in (folder / "cgroups").read_text().splitlines()]


def ends_soon(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


def test_a_command_runs_inside_and_its_status_is_passed_on(enclosure: Enclosure) -> None:
    assert NODE_ADDRESS in inside(enclosure, "ip", "-brief", "address").stdout
    assert enclosure.run(["sh", "-c", "exit 7"]) == 7
    assert len(inside(enclosure, "sh", "-c", "ls -d /proc/[0-9]*").stdout.split()) < 10, "no process of the machine"


def test_the_machines_network_cannot_be_reached_from_inside(enclosure: Enclosure) -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = str(server.getsockname()[1])
        addresses = ["127.0.0.1", *own_addresses()]
        dial = ["python3", "-c", DIAL, port, *addresses]
        assert subprocess.run(dial, capture_output=True, text=True, check=True).stdout.split() == addresses
        reached = inside(enclosure, *dial)
        assert (reached.returncode, reached.stdout.split()) == (0, [])


def own_addresses() -> list[str]:
    """The machine's IPv4 addresses but for loopback's."""
    shown = subprocess.run(["ip", "-4", "-oneline", "address"], capture_output=True, text=True, check=True).stdout
    return [line.split()[3].partition("/")[0] for line in shown.splitlines() if "inet 127." not in line]


def test_everybody_of_the_simulated_outside_answers(enclosure: Enclosure) -> None:
    assert inside(enclosure, "python3", "-c", DIAL, "80", *OUTSIDE.values()).stdout.split() == list(OUTSIDE.values())


def test_nothing_of_the_machine_is_changed(folder: Path) -> None:
    settings_before, mounts_before = settings(), Path("/proc/self/mountinfo").read_text()
    links_before = links()
    with Enclosure.start(folder) as enclosure:
        assert inside(enclosure, "sh", "-c", "echo 0 > /proc/sys/vm/overcommit_memory").returncode == 0
        assert settings() == settings_before
        assert Path("/proc/self/mountinfo").read_text() == mounts_before
        assert links() == links_before
    assert settings() == settings_before


def test_its_stop_ends_every_process_and_leaves_no_cgroup(folder: Path) -> None:
    enclosure = Enclosure.start(folder)
    with sleeper(enclosure) as command:
        first, made = first_process(folder), cgroups(folder)
        assert made and all(path.is_dir() for path in made)
        enclosure.stop()
        assert command.wait(timeout=10)
    assert not alive(first) and not any(path.exists() for path in made)
    assert not Enclosure.stop_in(folder), "a second stop finds nothing"


def test_the_death_of_its_runner_ends_it_and_the_next_start_clears_what_stayed(folder: Path) -> None:
    enclosure = Enclosure.start(folder)
    runner, lock = enclosure._runner, enclosure._lock
    assert runner is not None and lock is not None
    with sleeper(enclosure) as command:
        first, made = first_process(folder), cgroups(folder)
        runner.kill()
        assert runner.wait() and command.wait(timeout=10)
    assert ends_soon(first)
    assert all(path.is_dir() for path in made), "nobody was left to remove them"
    os.close(lock)  # as the kernel does when the runner's parent is killed with it
    with Enclosure.start(folder) as again:
        assert not any(path.exists() for path in made)
        assert again.run(["true"]) == 0


def test_sigterm_to_a_command_in_an_enclosure_leaves_nothing(folder: Path) -> None:
    code = "import sys; from pathlib import Path; from devnet.node.session import run_enclosed\n"
    code += "sys.exit(run_enclosed(Path(sys.argv[1]), ['sh', '-c', 'echo started; exec sleep 600']))"
    with subprocess.Popen([sys.executable, "-c", code, folder], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"started\n"
        first, made = first_process(folder), cgroups(folder)
        process.terminate()
        assert process.wait(timeout=30) == 143
    assert not alive(first) and not any(path.exists() for path in made)


def test_a_folder_has_one_enclosure_at_a_time(enclosure: Enclosure) -> None:
    with pytest.raises(EnclosureFailed, match=r"runs in .* already"):
        Enclosure.start(enclosure.folder)
    assert Enclosure.join(enclosure.folder).run(["true"]) == 0


def test_nobody_joins_an_enclosure_that_does_not_run(folder: Path) -> None:
    with pytest.raises(EnclosureFailed, match="no enclosure runs in"):
        Enclosure.join(folder)
