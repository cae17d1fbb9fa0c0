"""What the C library does with the memory of a process that has limited its heaps; each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from provider.daemon.heap import keep_heap_small

_PROGRAM = """
import ctypes, re, tempfile, threading
from provider.daemon.heap import keep_heap_small
{limit}
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
all_have_one = threading.Barrier(16)
def work():
    libc.malloc(5000)
    all_have_one.wait()
threads = [threading.Thread(target=work) for _ in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
libc.fopen.restype = ctypes.c_void_p
with tempfile.NamedTemporaryFile() as file:
    stream = ctypes.c_void_p(libc.fopen(file.name.encode(), b"w"))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    print(len(re.findall("<heap nr=", file.read().decode())))
"""


def _heaps(limit: str) -> int:
    argv = [sys.executable, "-c", _PROGRAM.format(limit=limit)]
    return int(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not keep_heap_small(), reason="the C library has no mallopt")
def test_threads_share_two_heaps() -> None:
    assert _heaps("keep_heap_small()") <= 2
    assert _heaps("") > 2, "without the limit there is nothing to be seen here"


def test_connections_to_the_api_server_have_small_buffers() -> None:
    code = "from asyncio.sslproto import SSLProtocol; from provider.daemon.heap import keep_heap_small; "
    code += "keep_heap_small(); print(SSLProtocol.max_size)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "65536"
