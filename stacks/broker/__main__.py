"""The broker's process. The first line of stdin holds its settings, and the end of stdin means that the parent ended;
answers go to stdout.

Each further line is a request: `{"ask": "status"}` or `{"ask": "settle", "stack": NAME, "seconds": N}`.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import signal
import sys
import time
from contextlib import suppress

from stacks.broker.fleet import Fleet
from stacks.broker.server import Serving, serving
from stacks.broker.settings import BrokerSettings
from stacks.common.fences import forbid_dumps
from stacks.common.listeners import fence_listeners
from stacks.common.tracebacks import use_plain_tracebacks

_PR_SET_PDEATHSIG = 1
_QUIET_S = 0.5


async def serve() -> None:
    """Serve until stdin ends or a SIGTERM comes; running calls then have `leave_seconds` to finish."""
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, over.set)
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    settings = BrokerSettings.model_validate_json(await lines.readline())
    async with serving(settings) as broker:
        _say({"port": broker.port})
        await _listen(lines, over, broker)
        await _quiet(broker.fleet, settings.leave_seconds)


async def _listen(lines: asyncio.StreamReader, over: asyncio.Event, broker: Serving) -> None:
    """Answer the parent's requests until stdin or the event ends it."""
    ending = asyncio.create_task(over.wait())
    while True:
        reading = asyncio.create_task(lines.readline())
        await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not reading.done() or not (line := reading.result()):
            reading.cancel()
            ending.cancel()
            return
        question = json.loads(line)
        if question["ask"] == "settle":
            _say({"settled": await broker.service.settled(question["stack"], question["seconds"])})
        else:
            _say(broker.status().model_dump())


async def _quiet(fleet: Fleet, seconds: float) -> None:
    """Wait until no call has run for a moment: command lines that were interrupted finish the step that they are in."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        plugins = fleet.plugins()
        last = max((plugin.used_at for plugin in plugins), default=0.0)
        if not any(plugin.running for plugin in plugins) and time.monotonic() - last > _QUIET_S:
            return
        await asyncio.sleep(0.05)


def _say(answer: dict[str, object]) -> None:
    with suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def main() -> None:
    """Run the process. Besides the end of stdin, the kernel reports the parent's death, in case another process holds
    the pipe open.
    """
    fence_listeners()
    forbid_dumps()
    use_plain_tracebacks()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the daemon's to hear
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    asyncio.run(serve())


if __name__ == "__main__":
    main()
