"""A worker: one process that runs operations for the daemon, one at a time. `python -m stacks.worker`.

Frames come on stdin and go to the original stdout; printed text goes to stderr. The end of stdin means that the daemon
has died: the running command line is interrupted, which releases its lock, and the worker ends.
"""

from __future__ import annotations

import ctypes
import gc
import os
import queue
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import BinaryIO

from components.lease import keep_built
from stacks.common.config import EngineConfig
from stacks.common.fences import forbid_dumps
from stacks.common.processes import command_name, end, survivors
from stacks.common.term import term_is_over
from stacks.common.tracebacks import plain_traceback, use_plain_tracebacks
from stacks.common.wire import (
    MAX_FRAME,
    Begun,
    Configure,
    Interrupt,
    Ready,
    Result,
    Task,
    decode,
    encode,
)
from stacks.worker.runner import Runner

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1
_TERM_S = 1.0


class Worker:
    """Reads frames in a thread, so that an interrupt arrives while an operation runs in the main thread."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
        self._writing = threading.Lock()
        self._running: Task | None = None
        self._interrupted = threading.Event()
        self._runner: Runner | None = None

    def serve(self) -> None:
        """Until stdin ends."""
        first = self._read()
        if not isinstance(first, Configure):
            raise SystemExit("the first frame must be the configuration")
        self._runner = runner = Runner(first.config)
        self._die_with_the_daemon(first.config)
        threading.Thread(target=self._listen, args=(first.config,), daemon=True).start()
        threading.Thread(target=self._watch_term, args=(first.config,), daemon=True).start()
        self._write(Ready(pid=os.getpid()))
        gc.freeze()  # of what is loaded by now, a collection in the middle of an update would look through all of it
        while True:
            task = self._tasks.get()
            self._write(Begun())
            result = runner.run(task)
            self._running = None
            self._write(Result(result=result))

    def _die_with_the_daemon(self, config: EngineConfig) -> None:
        """Have the kernel end the worker with the daemon, in case another process holds stdin open."""
        leave = threading.Thread(target=self.leave, args=(config,), daemon=True)
        signal.signal(signal.SIGTERM, lambda *_: None if leave.ident else leave.start())
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    def _listen(self, config: EngineConfig) -> None:
        while (frame := self._read()) is not None:
            if isinstance(frame, Task):
                self._interrupted.clear()
                self._running = frame  # from here on an interrupt is for this task, although it has not begun yet
                self._tasks.put(frame)
            elif isinstance(frame, Interrupt) and not self._interrupted.is_set():
                self._interrupted.set()
                threading.Thread(target=self._interrupt, args=(config,), daemon=True).start()
        self.leave(config)

    def _watch_term(self, config: EngineConfig) -> None:
        """Interrupt what runs when the daemon's term is over: a suspended daemon cannot. Only where a leader is
        elected.
        """
        while True:
            time.sleep(_TERM_S)
            if self._running is not None and not self._interrupted.is_set() and term_is_over(config.data):
                self._interrupted.set()
                self._interrupt(config)

    def leave(self, config: EngineConfig) -> None:
        """The daemon is gone: end the running operation, in order if possible, and exit."""
        self._interrupt(config)
        if (task := self._running) is not None:
            end(survivors(config.data, task.stack))
        os._exit(0)

    def _interrupt(self, config: EngineConfig) -> None:
        """Cancel the running operation: in the resident engine, or by one SIGINT to each of its command lines, since a
        second one would be a hard stop.

        Only that operation's: the next one may be of the same stack and begin at once.
        """
        task, interrupted = self._running, set[int]()
        deadline = time.monotonic() + config.interrupt_seconds
        while task is not None and self._running is task and time.monotonic() < deadline:
            if self._runner is not None:
                self._runner.cancel()
            for pid in set(survivors(config.data, task.stack)) - interrupted:
                interrupted.add(pid)
                if self._running is task and command_name(pid) == "pulumi":  # its plugin ends with it, in order
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGINT)
            time.sleep(0.1)

    def _read(self) -> Configure | Task | Interrupt | Ready | Begun | Result | None:
        head = self._source.read(4)
        size = int.from_bytes(head, "big")
        if len(head) < 4 or size > MAX_FRAME:
            return None
        body = self._source.read(size)
        return decode(body, to_worker=True) if len(body) == size else None

    def _write(self, frame: Ready | Begun | Result) -> None:
        with self._writing:
            self._sink.write(encode(frame))
            self._sink.flush()


def main() -> None:
    """Separate the pipes from text that libraries print, then serve."""
    forbid_dumps()
    use_plain_tracebacks()
    keep_built()
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    # Ctrl-C in a terminal is for the daemon. A handler, not SIG_IGN: children would inherit SIG_IGN, and the
    # command line would ignore the signal until it installs its own handler
    signal.signal(signal.SIGINT, lambda *_: None)
    try:
        Worker(source, sink).serve()
    except Exception as error:
        sys.stderr.write(plain_traceback(error) + "\n")
    finally:
        sys.stderr.flush()
        os._exit(0)  # gRPC's threads would keep the process alive
