"""What listens, and whom it answers, seen from outside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["answered", "calls_are_served", "listeners_of"]

_HELLO = r"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"


def answered(port: int, user: int = 0) -> bool:
    """Whether a gRPC server greets a connection of this user."""
    program = f"exec 3<>/dev/tcp/127.0.0.1/{port} || exit 3; printf '{_HELLO}' >&3; timeout 20 head -c 9 <&3 | wc -c"
    done = subprocess.run(["bash", "-c", program], user=user, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout.strip() == "9"


def calls_are_served(port: int, user: int = 0) -> bool:
    """Whether a gRPC server answers a call of this user with anything but a refusal: the child gives its user up."""
    program = f"""
import grpc, os, traceback, linecache
try:
    grpc.insecure_channel("127.0.0.1:1").unary_unary("/a/b")(b"", timeout=20)
except grpc.RpcError:
    pass  # from here on nothing is imported, which another user could not read
os.setgroups([]); os.setresgid({user}, {user}, {user}); os.setresuid({user}, {user}, {user})
call = grpc.insecure_channel("127.0.0.1:{port}").unary_unary("/pulumirpc.LanguageRuntime/GetPluginInfo")
events = grpc.insecure_channel("127.0.0.1:{port}").stream_unary("/pulumirpc.Events/StreamEvents")
codes = set()
for answer in (lambda: call(b"", timeout=20), lambda: events(iter(()), timeout=20)):
    try:
        answer(); codes.add("OK")
    except grpc.RpcError as error:
        codes.add(error.code().name)
print(codes <= {{"PERMISSION_DENIED", "UNAVAILABLE", "UNIMPLEMENTED"}} and "OK" not in codes)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=90)
    return done.stdout.strip() == "False"


def listeners_of(root: int) -> dict[int, str]:
    """Every listening port of the process and its descendants, with the name of the program."""
    children = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in children.splitlines()]
    family, names = {root}, {int(pid): name for pid, _, name in rows}
    while more := {int(pid) for pid, parent, _ in rows if int(parent) in family} - family:
        family |= more
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    table = [line.split() for lines in tables for line in lines]
    ports = {f"socket:[{row[9]}]": int(row[1].rpartition(":")[2], 16) for row in table if row[3] == "0A"}
    return {ports[link]: names.get(pid, "") for pid in family for link in _descriptors(pid) if link in ports}


def _descriptors(pid: int) -> Iterator[str]:
    """None of a process that has ended meanwhile."""
    folder = Path(f"/proc/{pid}/fd")
    with suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208 (names are enough)
            with suppress(OSError):
                yield os.readlink(folder / name)  # noqa: PTH115 (the target is no path)
