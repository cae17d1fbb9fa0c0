"""A command as a child process that gets the signals sent to its parent."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence

__all__ = ["ENDING_SIGNALS", "run_forwarding"]

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that request the end of a command."""
_POLL_S = 0.02


def run_forwarding(
    argv: Sequence[str],
    *,
    forwarded: Collection[signal.Signals] = ENDING_SIGNALS,
    bind: Callable[[], None],
    env: Mapping[str, str] | None = None,
) -> int:
    """Run a command with the caller's standard streams, forward signals to it, and return its status as Popen does.

    Ctrl-C is not forwarded: the terminal sends it to the command too, and a second SIGINT would cut its end short.
    SIGHUP is not forwarded where it is ignored, which is the effect of `nohup`. `bind` runs in the child before the
    command. Raises OSError when there is no such command.
    """
    numbers = {each for each in forwarded if each != signal.SIGHUP or signal.getsignal(each) is not signal.SIG_IGN}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        bind()

    try:
        process = subprocess.Popen(argv, env=env, preexec_fn=prepare)  # noqa: PLW1509  system calls only
        while process.poll() is None:
            came = signal.sigtimedwait(numbers, _POLL_S)
            if came is not None and not _is_from_terminal(came):
                process.send_signal(came.si_signo)
        return process.returncode
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _is_from_terminal(came: signal.struct_siginfo) -> bool:
    """Whether a SIGINT is Ctrl-C: the kernel's own signals have a positive code, those of processes do not."""
    return came.si_signo == signal.SIGINT and came.si_code > 0
