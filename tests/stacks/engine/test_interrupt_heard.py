"""An interrupt is for the task that was sent before it, also while that task is not begun yet."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stacks.common.config import EngineConfig
from stacks.common.processes import DATA_MARK, STACK_MARK
from stacks.common.results import Operation
from stacks.common.wire import Interrupt, Task, encode
from stacks.worker.process import Worker
from tests.world.patience import PATIENCE_S
from tests.world.processes import start_process

STACK = "a-stack"


class Listening(Worker):
    """Hears frames and begins nothing; at the end of its pipe it only stops."""

    def __init__(self, source: int) -> None:
        super().__init__(os.fdopen(source, "rb"), io.BytesIO())

    def leave(self, config: EngineConfig) -> None:
        self._running = None
        self._source.close()


@pytest.fixture
def config(tmp_path: Path) -> EngineConfig:
    return EngineConfig(data=tmp_path, kubeconfig=tmp_path, pulumi=tmp_path, interrupt_seconds=20)


@pytest.fixture
def daemon(config: EngineConfig) -> Iterator[int]:
    """The daemon's end of a worker's pipe."""
    ours, theirs = os.pipe()
    listening = threading.Thread(target=Listening(ours)._listen, args=(config,))
    listening.start()
    yield theirs
    os.close(theirs)
    listening.join(30)


@pytest.fixture(autouse=True)
def heeded() -> Iterator[None]:
    """What a shell starts in the background ignores SIGINT, and so would its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def command_line(config: EngineConfig, stack: str) -> subprocess.Popen[bytes]:
    """A process that looks like one of a run: named pulumi, with the marks in its environment."""
    program = config.data / "pulumi"
    if not program.exists():
        shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    return start_process([program, "3600"], env={DATA_MARK: str(config.data), STACK_MARK: stack})


def send(daemon: int, *frames: Task | Interrupt) -> None:
    os.write(daemon, b"".join(encode(frame) for frame in frames))


TASK = Task(operation=Operation.DESTROY, stack=STACK)


def test_an_interrupt_right_behind_its_task_ends_the_command_line_that_is_still_to_start(
    config: EngineConfig, daemon: int
) -> None:
    send(daemon, TASK, Interrupt())
    started = command_line(config, STACK)
    try:
        assert started.wait(PATIENCE_S) == -signal.SIGINT
    finally:
        started.kill()
        started.wait()


def test_an_interrupt_is_not_for_another_stack_nor_for_what_ran_before_the_task(
    config: EngineConfig, daemon: int
) -> None:
    other, own = command_line(config, "another"), command_line(config, STACK)
    try:
        send(daemon, Interrupt())  # nothing runs: nobody is meant
        time.sleep(0.3)
        assert own.poll() is None
        send(daemon, TASK, Interrupt())
        assert own.wait(PATIENCE_S) == -signal.SIGINT and other.poll() is None
    finally:
        for each in (other, own):
            each.kill()
            each.wait()
