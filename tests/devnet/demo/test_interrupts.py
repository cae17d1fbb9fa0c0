"""A signal ends the demo at any time, even if a cancellation is lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys

import pytest

from devnet.demo.interrupts import Interrupted, Interrupts

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


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
def test_a_signal_outside_guard_raises_at_once(number):
    with pytest.raises(Interrupted), Interrupts().installed():
        os.kill(os.getpid(), number)
        signal.pause()


@pytest.mark.parametrize("times", [0, 1, 5])
def test_a_lost_cancellation_is_repeated(times):
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


def test_a_signal_during_the_last_step_interrupts_too():
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


def test_an_error_without_a_signal_is_raised_unchanged():
    async def work() -> None:
        raise ValueError("its own")

    with Interrupts().installed() as interrupts, pytest.raises(ValueError, match="its own"):
        asyncio.run(interrupts.guard(work()))
    interrupts.check()


def test_the_earlier_signal_handlers_are_restored():
    before = [signal.getsignal(number) for number in SIGNALS]
    with Interrupts().installed():
        pass
    assert [signal.getsignal(number) for number in SIGNALS] == before


def arrive(number: signal.Signals = signal.SIGINT) -> None:
    """Return when the handler has run."""
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("outcome", [None, ValueError("its own")])
def test_the_first_signal_after_the_work_is_only_noted(outcome):
    """Also when the loop of the work is closed: the removal of objects comes then."""

    async def work() -> None:
        if outcome is not None:
            raise outcome

    with Interrupts().installed() as interrupts:
        with contextlib.suppress(ValueError):
            asyncio.run(interrupts.guard(work()))
        arrive()
        with pytest.raises(Interrupted):
            interrupts.check()
        with pytest.raises(Interrupted):
            arrive()


def test_a_block_that_is_held_is_cut_short_by_the_second_signal_only():
    with Interrupts().installed() as interrupts:
        with interrupts.held():
            arrive()
            with pytest.raises(Interrupted):
                arrive()
        assert interrupts.came


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGHUP])
def test_the_end_of_a_terminal_never_counts_as_a_second_signal(first):
    with Interrupts().installed() as interrupts, interrupts.held():
        arrive(first)
        arrive(signal.SIGHUP)
        interrupts.hang_up()
        assert interrupts.came


def test_a_hangup_that_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts().installed() as interrupts:
            arrive(signal.SIGHUP)
            assert not interrupts.came
    finally:
        signal.signal(signal.SIGHUP, before)


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


def test_a_signal_that_the_parent_ignored_is_handled():
    argv = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", sys.executable, "-c", IGNORED]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "interrupted\n"
