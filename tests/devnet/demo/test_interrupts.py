"""A signal ends the demo whenever it comes, even where a cancellation is lost on its way."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from devnet.demo.interrupts import Interrupted, Interrupts

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("devnet.demo.interrupts._AGAIN_S", 0.01)


async def stubborn(times: int, done: list[str]) -> None:
    """Loses so many cancellations."""
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(times):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            done.append("lost")
    await asyncio.sleep(60)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_where_nothing_is_awaited_is_raised_there(number):
    with pytest.raises(Interrupted), Interrupts().installed():
        os.kill(os.getpid(), number)
        signal.pause()


@pytest.mark.parametrize("times", [0, 1, 5])
def test_a_lost_cancellation_is_asked_for_again(times):
    done = list[str]()

    async def work(interrupts: Interrupts) -> None:
        try:
            await interrupts.guard(stubborn(times, done))
        finally:
            await asyncio.sleep(0)
            done.append("cleaned up")

    with Interrupts().installed() as interrupts, pytest.raises(Interrupted):
        asyncio.run(work(interrupts))
    assert done == ["lost"] * times + ["cleaned up"]


def test_a_signal_during_the_last_step_is_an_interrupt_too():
    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with Interrupts().installed() as interrupts:
        with pytest.raises(Interrupted):
            asyncio.run(interrupts.guard(work()))
        with pytest.raises(Interrupted):
            interrupts.check()


def test_a_failure_while_it_is_cancelled_is_still_an_interrupt():
    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(60)
        finally:
            raise ValueError("while cleaning up")

    with Interrupts().installed() as interrupts, pytest.raises(Interrupted):
        asyncio.run(interrupts.guard(work()))


def test_what_fails_by_itself_fails_with_its_own_error():
    async def work() -> None:
        raise ValueError("its own")

    with Interrupts().installed() as interrupts, pytest.raises(ValueError, match="its own"):
        asyncio.run(interrupts.guard(work()))
    interrupts.check()


def test_afterwards_signals_are_what_they_were():
    before = [signal.getsignal(number) for number in SIGNALS]
    with Interrupts().installed():
        pass
    assert [signal.getsignal(number) for number in SIGNALS] == before


IGNORED = """
import os, signal
from devnet.demo.interrupts import Interrupted, Interrupts
assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
with Interrupts().installed():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    except Interrupted:
        print("interrupted")
"""


def test_a_signal_that_the_parent_had_ignored_is_heard():
    argv = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", sys.executable, "-c", IGNORED]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "interrupted\n"
