"""The owner of the other end of a loopback connection, asked of the kernel at every call.

gRPC reports no end of a connection and ports are used again, so an answer must not be remembered. One exact question to
`sock_diag(7)` costs 8 µs. Reading the table /proc/net/tcp, where netlink is not allowed, costs 4 ms.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from pathlib import Path

__all__ = ["Owners"]

_SOCK_DIAG, _BY_FAMILY, _REQUEST = 4, 20, 1
_ESTABLISHED, _LISTEN = 1, 10
_LOOPBACK = socket.inet_aton("127.0.0.1") + bytes(12)
_HEADER = struct.Struct("=IHHII")
_QUERY = struct.Struct("=BBBBI")
_ANSWER_IDS = struct.Struct("=IIIII")
_AT_IDS = _HEADER.size + 4 + 48
"""`struct inet_diag_msg`: 4 bytes with family and state, 48 of addresses; expires, rqueue, wqueue, uid, inode."""


class Owners:
    """Answers for connections to one port of 127.0.0.1."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._netlink: socket.socket | None = _open()

    def is_ours(self, peer: str) -> bool:
        """Whether `peer` (gRPC's text, `ipv4:127.0.0.1:PORT`) is an open socket of this process's user.

        A socket whose process has closed it belongs to root, so only an established one counts.
        """
        kind, _, address = peer.partition(":")
        host, _, port = address.rpartition(":")
        if kind != "ipv4" or host != "127.0.0.1" or not port.isascii() or not port.isdigit():
            return False
        return self._owner(int(port)) == os.getuid()

    def answers_at(self) -> bool | None:
        """Whether a socket listens at the port; None where the kernel is not to be asked."""
        if self._netlink is None:
            return None
        try:
            return _found(self._netlink, self._port, 0, state=_LISTEN) is not None
        except OSError:
            return None

    def owner_of(self, port: int) -> int | None:
        """User id of the established socket at `port` that is connected to the port; None if there is none."""
        return self._owner(port)

    def close(self) -> None:
        if self._netlink is not None:
            self._netlink.close()

    def __del__(self) -> None:
        """A gRPC server drops its interceptor without a call that could close the socket."""
        self.close()

    def _owner(self, port: int) -> int | None:
        if self._netlink is not None:
            try:
                return _ask(self._netlink, port, self._port)
            except OSError:
                self._netlink.close()
                self._netlink = None
        return _look_up(Path("/proc/net/tcp").read_text(), port, self._port)


def _open() -> socket.socket | None:
    try:
        opened = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _SOCK_DIAG)
    except OSError:
        return None
    opened.settimeout(1)
    return opened


def _ask(netlink: socket.socket, port: int, own_port: int) -> int | None:
    """User id of the socket at `port` that is connected to `own_port`; None if there is none. Raises `OSError`."""
    return _found(netlink, port, own_port, state=_ESTABLISHED)


def _found(netlink: socket.socket, port: int, other: int, *, state: int) -> int | None:
    """User id of the socket in this state between the two ports; `other` is 0 for one that listens."""
    peer = _LOOPBACK if other else bytes(16)
    ends = struct.pack("!HH", port, other) + _LOOPBACK + peer + struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
    query = _QUERY.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 1 << state) + ends
    netlink.send(_HEADER.pack(_HEADER.size + len(query), _BY_FAMILY, _REQUEST, 1, 0) + query)
    answer = netlink.recv(4096)
    kind = _HEADER.unpack_from(answer)[1]
    if kind == _BY_FAMILY:
        same = answer[_HEADER.size + 1] == state
        return int(_ANSWER_IDS.unpack_from(answer, _AT_IDS)[3]) if same else None
    problem = -int(struct.unpack_from("=i", answer, _HEADER.size)[0])
    if problem == errno.ENOENT:
        return None
    raise OSError(problem, "sock_diag refused")


def _look_up(table: str, port: int, own_port: int) -> int | None:
    """As `_ask`, from the text of /proc/net/tcp."""
    ends = [f"0100007F:{port:04X}", f"0100007F:{own_port:04X}", f"{_ESTABLISHED:02X}"]
    for line in table.splitlines()[1:]:
        columns = line.split()
        if columns[1:4] == ends:
            return int(columns[7])
    return None
