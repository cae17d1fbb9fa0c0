"""Runs a program within limits of time and output, whatever the program does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from dataclasses import dataclass

from provider.errors import PricingError
from provider.market.pricing.script_leftovers import RUN_VARIABLE, Leftovers, end_all, new_run
from provider.market.pricing.script_user import ScriptUser

__all__ = ["OUTPUT_LIMIT", "ProgramResult", "run_program"]

OUTPUT_LIMIT = 64 * 1024
"""Bytes of stdout; a program that prints more is killed. More bytes of stderr are read and dropped."""
_CHUNK = 16 * 1024
_TICK_S = 0.05
_PATIENCE = 100
"""Ticks until a killed program must have ended."""
_GRACE_S = 0.2
"""For reading the pipes of a program that has ended. A child process of it may hold them open for ever."""


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """`status`: the exit status, or below zero the signal that ended the program."""

    status: int
    stdout: bytes
    stderr: bytes


async def run_program(
    path: str,
    *,
    stdin: bytes,
    environment: Mapping[str, str],
    timeout_s: float,
    leftovers: Leftovers,
    user: ScriptUser | None = None,
) -> ProgramResult:
    """Run the program in its own session, without arguments and without open files of the provider.

    Raises `PricingError` when the program cannot be started, prints too much or does not end in time; then it is killed
    with all processes that it started. Processes that it leaves running end at its time limit.
    """
    run = new_run()
    try:
        process = await _start(path, {**environment, RUN_VARIABLE: run}, run, user)
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise PricingError(f"the price script {path!r} cannot be started: {words}") from error
    deadline = asyncio.get_running_loop().time() + timeout_s
    try:
        async with asyncio.timeout_at(deadline):
            ended = await _talk(process, stdin)
    except TimeoutError:
        await _end(process, run)
        raise PricingError(f"the price script did not end within {timeout_s:g} s and was killed") from None
    except BaseException:
        await asyncio.shield(_end(process, run))
        raise
    leftovers.at(deadline, run)
    return ended


async def _start(path: str, environment: Mapping[str, str], run: str, user: ScriptUser | None) -> Process:
    """A cancelled caller waits until the process has started and can be ended; asyncio would wait for its children."""
    as_user = user.options() if user is not None else {}
    environment = {**environment, **(user.variables() if user is not None else {})}
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            path, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, start_new_session=True, **as_user
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError, ValueError):
            await _end(await starting, run)
        raise


async def _talk(process: Process, stdin: bytes) -> ProgramResult:
    assert process.stdout is not None and process.stderr is not None  # noqa: S101  # they are pipes
    out, err = bytearray(), bytearray()
    tasks = [
        asyncio.ensure_future(_read(process.stdout, out, refuse=True)),
        asyncio.ensure_future(_read(process.stderr, err, refuse=False)),
        asyncio.ensure_future(_feed(process, stdin)),
    ]
    waiter = asyncio.ensure_future(process.wait())
    try:
        # wait() also waits for the pipes, which a child process may hold open; the status is known before
        while process.returncode is None:
            pending = {task for task in (waiter, tasks[0]) if not task.done()}
            await asyncio.wait(pending, timeout=_TICK_S, return_when="FIRST_COMPLETED")
            if tasks[0].done():
                tasks[0].result()
        await asyncio.wait(tasks[:2], timeout=_GRACE_S)
        if tasks[0].done():
            tasks[0].result()
    finally:
        for task in (*tasks, waiter):
            task.cancel()
        await asyncio.gather(*tasks, waiter, return_exceptions=True)
        _close(process)
    return ProgramResult(process.returncode, bytes(out), bytes(err))


async def _read(stream: asyncio.StreamReader, kept: bytearray, *, refuse: bool) -> None:
    while chunk := await stream.read(_CHUNK):
        kept += chunk[: OUTPUT_LIMIT - len(kept)] if len(kept) < OUTPUT_LIMIT else b""
        if refuse and len(kept) >= OUTPUT_LIMIT:
            raise PricingError(f"the price script printed {OUTPUT_LIMIT} bytes or more and was killed")


async def _feed(process: Process, data: bytes) -> None:
    """A program need not read its input."""
    assert process.stdin is not None  # noqa: S101  # it is a pipe
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(data)
        await process.stdin.drain()
        process.stdin.close()


def _close(process: Process) -> None:
    """Closes the own ends of the pipes, also when a child of the program still holds the other ends."""
    transport = getattr(process, "_transport", None)
    if transport is not None and process.returncode is not None:
        transport.close()


async def _end(process: Process, run: str) -> None:
    """Ends the descendants first, while their parent is known, then the program, then the rest of its process group.

    The group is stopped before: a shell whose command is killed would go on with its next command.
    """
    _signal_group(process, signal.SIGSTOP)
    await asyncio.to_thread(end_all, {run}, process.pid if process.returncode is None else None)
    _signal_group(process, signal.SIGKILL)
    for _ in range(_PATIENCE):
        if process.returncode is not None:
            break
        await asyncio.sleep(_TICK_S)
    _close(process)


def _signal_group(process: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
