"""The fence around listeners of other programs: other users of the machine are refused.

The calling process and all that it starts get a seccomp filter, whose questions `listener_guard` answers in a process
of its own. No privilege is needed. Set-user-id programs then run without their rights.
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import struct
import subprocess
import sys
from pathlib import Path

__all__ = ["FENCED", "fence_listeners", "fence_problem"]

FENCED = (sys.executable, "-I", "-S", str(Path(__file__)))
"""Before a command line: the program runs behind the fence, in the same process."""

_ARCHITECTURES = {"x86_64": (0xC000003E, 54, 317), "aarch64": (0xC00000B7, 208, 277)}
"""AUDIT_ARCH, the number of setsockopt, the number of seccomp."""
_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER = 1
_NEW_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ASK = 0x7FFF0000, 0x7FC00000
_TCP, _NODELAY = 6, 1
_GUARD = Path(__file__).with_name("listener_guard.py")
_TRY_S = 30.0


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def fence_listeners() -> str:
    """From now on only processes of the same user keep a connection to a listener of a program that this process
    starts. Returns the problem when the system does not allow that, else an empty text.

    Must be called before the process has a second thread.
    """
    if platform.machine() not in _ARCHITECTURES:
        return f"no fence for listeners on {platform.machine()}"
    near, far = socket.socketpair()
    with near, far:
        guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_GUARD), str(far.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(far.fileno(),),
            env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
            cwd="/",
            start_new_session=True,
        )
        try:
            listener = _install(*_ARCHITECTURES[platform.machine()])
        except OSError as error:
            guard.kill()
            guard.wait()
            return f"the system allows no seccomp filter with a listener ({error.strerror})"
        socket.send_fds(near, [b"f"], [listener])
        os.close(listener)
        far.close()
        if near.recv(1) != b"k":
            return "the guard of the listeners did not start"
    guard.returncode = 0  # it ends with the last filtered process; nobody waits for it
    return ""


def fence_problem() -> str:
    """What `fence_listeners` would return here; tried in a process of its own."""
    program = "from stacks.common.listeners import fence_listeners; print(fence_listeners())"
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=_TRY_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"the fence for listeners could not be tried ({type(error).__name__})"
    return done.stdout.strip()


def _install(architecture: int, setsockopt: int, seccomp: int) -> int:
    """The descriptor of the filter that asks for each `setsockopt(…, IPPROTO_TCP, TCP_NODELAY)`. Raises `OSError`."""
    instructions = (
        (_LOAD, 0, 0, 4), (_EQUAL, 0, 6, architecture),
        (_LOAD, 0, 0, 0), (_EQUAL, 0, 4, setsockopt),
        (_LOAD, 0, 0, 24), (_EQUAL, 0, 2, _TCP),
        (_LOAD, 0, 0, 32), (_EQUAL, 1, 0, _NODELAY),
        (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ASK),
    )  # fmt: skip
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in instructions))
    program = _Program(len(instructions), ctypes.cast(code, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):  # the second flag is of Linux 5.19
        listener = int(libc.syscall(seccomp, _SET_MODE_FILTER, flags, ctypes.byref(program)))
        if listener >= 0:
            return listener
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    fence_listeners()
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606 (no shell is wanted)
