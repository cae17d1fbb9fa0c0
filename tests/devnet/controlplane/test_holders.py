"""The holders: registered through the FIFO, counted only while their processes run. No control plane starts here."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from devnet.controlplane.holders import Holders, announce, retract, watch_process
from tests.world.processes import line_of, start_process

CHECKOUT = Path(__file__).resolve().parents[3]
HOLDER = """
import os, sys, time
from devnet.controlplane.holders import announce
hold = os.open(sys.argv[1], os.O_WRONLY)
announce(hold)
os.set_inheritable(hold, True)
if sys.argv[2] == "forks" and os.fork() == 0:
    os.setsid()
    print(os.getpid(), flush=True)
    time.sleep(60)
    os._exit(0)
if sys.argv[2] != "forks":
    print(flush=True)
time.sleep(60)
"""


@pytest.fixture
def fifo(tmp_path) -> Path:
    os.mkfifo(tmp_path / "holders")
    return tmp_path / "holders"


def supervisor_end(fifo: Path) -> int:
    return os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)


def start_holder(fifo: Path, kind: str) -> subprocess.Popen:
    argv = [sys.executable, "-c", HOLDER, str(fifo), kind]
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    return start_process(argv, stdout=subprocess.PIPE, text=True, env=env)


async def ended(event: asyncio.Event) -> bool:
    try:
        await asyncio.wait_for(event.wait(), 10)
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("kind", ["alone", "forks"])
async def test_a_killed_holder_is_removed_even_if_its_child_has_the_fifo_open(fifo, kind):
    none_left = asyncio.Event()
    reading = supervisor_end(fifo)
    process = start_holder(fifo, kind)
    child = await asyncio.to_thread(line_of, process)
    holders = Holders(reading, none_left.set)
    assert holders.any_left()
    try:
        process.send_signal(signal.SIGKILL)
        assert await ended(none_left)
        assert not holders.any_left()
    finally:
        if child.strip():
            os.kill(int(child), signal.SIGKILL)
        process.communicate()
        holders.close()
        os.close(reading)


async def test_two_holds_of_one_process_count_twice(fifo):
    none_left = asyncio.Event()
    reading = supervisor_end(fifo)
    holds = [os.open(fifo, os.O_WRONLY) for _ in range(2)]
    for hold in holds:
        announce(hold)
    holders = Holders(reading, none_left.set)
    assert holders.any_left()
    retract(holds[0])
    await asyncio.sleep(0.05)
    assert not none_left.is_set()
    retract(holds[1])
    assert await ended(none_left)
    holders.close()
    os.close(reading)


async def test_a_holder_that_ended_before_its_message_was_read_does_not_count(fifo):
    reading = supervisor_end(fifo)
    process = start_holder(fifo, "alone")
    await asyncio.to_thread(line_of, process)
    process.kill()
    process.communicate()
    ours = os.open(fifo, os.O_WRONLY)  # another one has it open, and has not said anything yet
    holders = Holders(reading, lambda: None)
    assert not holders.any_left()
    announce(ours)
    assert holders.any_left()
    holders.close()
    for each in (ours, reading):
        os.close(each)


async def test_a_release_after_the_end_of_the_supervisor_does_nothing(fifo):
    reading = supervisor_end(fifo)
    hold = os.open(fifo, os.O_WRONLY)
    os.close(reading)
    retract(hold)


async def test_a_missing_process_cannot_be_watched():
    with pytest.raises(ProcessLookupError):
        watch_process(2**22 + 1, lambda: None)  # beyond the kernel's largest number
