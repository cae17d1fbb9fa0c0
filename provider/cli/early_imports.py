"""What `lessor run` imports first, so that the provider is ready sooner: aiohttp in a thread of its own, and two
libraries without others that they would load and do not need here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

__all__ = ["import_early"]


def import_early() -> None:
    """Start the import of aiohttp, which other imports then need not wait for, and import two libraries without others:
    structlog without Rich, which takes longer than structlog itself (the provider logs plain tracebacks), and the
    hashes of pycryptodome by ctypes, since cffi brings a parser of C.
    """
    Thread(target=_import_aiohttp, name="import of aiohttp", daemon=True).start()
    with _without("rich"):
        import structlog  # noqa: F401, PLC0415
    with _without("cffi"):
        import Crypto.Util._raw_api  # noqa: F401, PLC0415


def _import_aiohttp() -> None:
    """Import aiohttp. It parses the system's certificate authorities, and the interpreter's lock is free meanwhile."""
    import aiohttp  # noqa: F401, PLC0415


@contextmanager
def _without(unwanted: str) -> Iterator[None]:
    """What is imported meanwhile does without the library `unwanted`, unless that is loaded already."""
    if unwanted in sys.modules:
        yield
        return
    sys.modules[unwanted] = None  # type: ignore[assignment]  # how Python marks a module that cannot be imported
    try:
        yield
    finally:
        del sys.modules[unwanted]
