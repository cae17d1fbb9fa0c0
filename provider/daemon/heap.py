"""The heap of the process: what is freed goes back to the system.

glibc gives each of many threads a heap of its own, up to eight a core, and raises the size from which a block has its
own mapping to the largest one that was ever freed. Bursts of strangers' requests and lists of thousands of objects
would then leave memory behind that is free and stays resident.
"""

from __future__ import annotations

import ctypes
from asyncio.sslproto import SSLProtocol

__all__ = ["keep_heap_small"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # <malloc.h>
_TRIM_BYTES = 1 << 20
_MMAP_BYTES = 256 * 1024
_ARENAS = 2
_TLS_BYTES = 64 * 1024
"""Of each connection to the API server, of which a watch has one; 256 KiB by default."""


def keep_heap_small() -> bool:
    """Limit the heaps that threads have to two, and fix the sizes from which memory is given back. Returns whether the
    C library is one that can. To be called before threads begin.
    """
    SSLProtocol.max_size = _TLS_BYTES
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    wanted = ((_ARENA_MAX, _ARENAS), (_MMAP_THRESHOLD, _MMAP_BYTES), (_TRIM_THRESHOLD, _TRIM_BYTES))
    return all(mallopt(option, value) == 1 for option, value in wanted)
