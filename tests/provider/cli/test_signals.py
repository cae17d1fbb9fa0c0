"""What SIGHUP means to a long-running command: read again, unless it was ignored from the start or a terminal ended."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.world.patience import until
from tests.world.processes import line_of, start_process

_PROGRAM = """
import asyncio, sys
from provider.cli.signals import until_signal
from provider.observe.logs import configure_logging
from provider.settings import LogFormat

configure_logging(form=LogFormat.CONSOLE)

async def work():
    print("runs", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("ends", flush=True)
        await asyncio.sleep(0.5)
        print("ended", flush=True)

def again():
    print("again", flush=True)

asyncio.run(until_signal(work(), what="test", on_hangup=again if sys.argv[1] == "reads" else None))
"""


def program(form: str = "reads", **options: Any) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", _PROGRAM, form]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "start_new_session": True} | options
    return start_process(argv, text=True, **options)


def test_a_hangup_is_read_again_and_the_work_goes_on() -> None:
    process = program()
    assert line_of(process) == "runs\n"
    for _ in range(3):
        process.send_signal(signal.SIGHUP)
        assert line_of(process) == "again\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(240) == 0


def test_a_late_hangup_does_not_cut_the_end_off() -> None:
    process = program()
    assert line_of(process) == "runs\n"
    process.send_signal(signal.SIGTERM)
    assert line_of(process) == "ends\n"
    process.send_signal(signal.SIGHUP)
    assert line_of(process) == "ended\n"
    assert process.wait(240) == 0


def test_what_nohup_ignores_stays_ignored() -> None:
    process = program(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert line_of(process) == "runs\n"
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    assert [line_of(process), line_of(process)] == ["ends\n", "ended\n"]


def test_a_command_that_reads_nothing_again_ends_as_any_program() -> None:
    process = program("nothing")
    assert line_of(process) == "runs\n"
    process.send_signal(signal.SIGHUP)
    assert process.wait(240) == -signal.SIGHUP


@pytest.mark.parametrize("gone", [True, False])
def test_the_end_of_the_terminal_ends_the_work_in_order(tmp_path: Path, gone: bool) -> None:
    master, slave = pty.openpty()
    log = tmp_path / "log"
    with log.open("w") as output:
        argv = ["setsid", "--ctty", "--wait", sys.executable, "-c", _PROGRAM, "reads"]
        process = start_process(argv, stdin=slave, stdout=output, stderr=subprocess.DEVNULL, start_new_session=True)
    os.close(slave)
    until(lambda: "runs" in log.read_text())
    if gone:
        os.close(master)
        until(lambda: log.read_text() == "runs\nends\nended\n")
        return
    child = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
    os.kill(child, signal.SIGHUP)
    until(lambda: log.read_text() == "runs\nagain\n")
    os.kill(child, signal.SIGTERM)
    until(lambda: log.read_text().endswith("ended\n"))
    os.close(master)
