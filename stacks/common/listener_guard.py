"""The process that decides which connections the listeners of other processes may keep.

Pulumi's command line and its plugins listen on 127.0.0.1 and ask nobody who calls, and no option changes that. But Go
sets TCP_NODELAY on each connection before it reads from it. A seccomp filter (`stacks.common.listeners`) stops there
and asks this process, which looks up the user at the other end. A stranger's connection is replaced by one at its end.

`python -I -S listener_guard.py FD`: the program uses the standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import runpy
import select
import socket
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["is_strangers"]

_NOTIFICATION, _ANSWER, _ADDITION = 80, 24, 24
_RECEIVE = (3 << 30) | (_NOTIFICATION << 16) | (0x21 << 8)
_SEND = (3 << 30) | (_ANSWER << 16) | (0x21 << 8) | 1
_ADD = (1 << 30) | (_ADDITION << 16) | (0x21 << 8) | 3
"""`seccomp(2)`: _IOWR('!', 0, struct seccomp_notif), _IOWR('!', 1, …_resp) and _IOW('!', 3, …_addfd)."""
_CONTINUE = 1
_REPLACE = 1
_DESCRIPTOR_AT = 32
"""The first argument of the system call, in `struct seccomp_notif`."""
_LISTENING, _ESTABLISHED = "0A", "01"
_PIDFD_GETFD = 438
_LIBC = ctypes.CDLL(None, use_errno=True)
_PEERS = runpy.run_path(str(Path(__file__).with_name("peers.py")))
"""`stacks.common.peers`, which uses the standard library only too."""
_MAPPED = "0000000000000000FFFF0000"
"""Of IPv4 in an IPv6 address, as the table prints it."""


def is_strangers(inode: str, table: Iterable[str], user: int) -> bool:
    """Whether the socket was accepted from a listener and is not an established connection from a socket of `user`.

    `table`: lines of /proc/net/tcp and tcp6, where gRPC's own sockets are, which are for both families. A socket that
    nothing listens at is one that was dialled.
    """
    rows = [line.replace(_MAPPED, "").split() for line in table]
    own = next((row for row in rows if len(row) > 9 and row[9] == inode), None)
    if own is None:
        return False
    port = own[1].rpartition(":")[2]
    if not any(row[3] == _LISTENING and row[1].rpartition(":")[2] == port for row in rows[1:]):
        return False
    peers = [row for row in rows if row[1:3] == [own[2], own[1]]]
    return not any(row[3] == _ESTABLISHED and row[7] == str(user) for row in peers)


def main(channel: int) -> None:
    """Take the filter's descriptor from `channel`, then answer until no process has the filter any more."""
    with socket.socket(fileno=channel) as parent:
        _, (listener, *_), *_ = socket.recv_fds(parent, 1, 1)
        parent.send(b"k")
    ended, other = socket.socketpair()
    other.close()
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while True:
        for _, event in poll.poll():
            if event & select.POLLIN:
                _answer(listener, ended)
            elif event & select.POLLHUP:
                return


def _answer(listener: int, ended: socket.socket) -> None:
    request = bytearray(_NOTIFICATION)
    try:
        fcntl.ioctl(listener, _RECEIVE, request)
    except OSError:
        return  # the thread was interrupted or killed meanwhile
    number, thread = struct.unpack_from("=QI", request)
    (descriptor,) = struct.unpack_from("=I", request, _DESCRIPTOR_AT)
    flags = _CONTINUE
    try:
        if _is_refused(thread, descriptor):
            flags = 0
            addition = struct.pack("=QIIII", number, _REPLACE, ended.fileno(), descriptor, os.O_CLOEXEC)
            fcntl.ioctl(listener, _ADD, addition)
        fcntl.ioctl(listener, _SEND, struct.pack("=QqiI", number, 0, 0, flags))
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise


def _is_refused(thread: int, descriptor: int) -> bool:
    """A process that hides its descriptors, as Lessor's own do, checks its peers itself."""
    ends = _ends(thread, descriptor)
    if ends is not None and (quick := _is_strangers_exactly(*ends)) is not None:
        return quick
    try:
        name = os.readlink(f"/proc/{thread}/fd/{descriptor}")  # noqa: PTH115 (pathlib costs as much as the rest)
    except OSError:
        return False
    if not name.startswith("socket:["):
        return False
    return is_strangers(name[8:-1], _table(), os.geteuid())


def _ends(thread: int, descriptor: int) -> tuple[int, int] | None:
    """The ports of a connection between 127.0.0.1 and 127.0.0.1, from the socket itself; None where the kernel does not
    let this process take it (Yama), or for another connection.
    """
    try:
        status = Path(f"/proc/{thread}/status").read_text(encoding="utf-8", errors="replace")
        process = os.pidfd_open(int(status.partition("Tgid:")[2].split(None, 1)[0]))
        try:
            taken = _LIBC.syscall(_PIDFD_GETFD, process, descriptor, 0)
        finally:
            os.close(process)
        if taken < 0:
            return None
        with socket.socket(fileno=taken) as connection:
            (host, port, *_), (other, far, *_) = connection.getsockname(), connection.getpeername()
    except (OSError, ValueError, IndexError):
        return None
    both = {str(host).removeprefix("::ffff:"), str(other).removeprefix("::ffff:")}
    return (port, far) if both == {"127.0.0.1"} else None


def _is_strangers_exactly(port: int, far: int) -> bool | None:
    """`is_strangers` by two exact questions to the kernel; None where it is not to be asked."""
    owners = _PEERS["Owners"](port)
    try:
        accepted: bool | None = owners.answers_at()
        return bool(owners.owner_of(far) != os.geteuid()) if accepted else accepted
    finally:
        owners.close()


def _table() -> Iterator[str]:
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(FileNotFoundError), open(name, encoding="ascii") as table:  # noqa: PTH123 (as above)
            yield from table


if __name__ == "__main__":
    main(int(sys.argv[1]))
