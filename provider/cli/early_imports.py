"""What `lessor run` imports first, so that the provider is ready sooner: aiohttp in a thread of its own, and structlog
without a library that it would load for tracebacks.
"""

from __future__ import annotations

import sys
from threading import Thread

__all__ = ["import_early"]


def import_early() -> None:
    """Start the import of aiohttp, which other imports then need not wait for, and import structlog."""
    Thread(target=_import_aiohttp, name="import of aiohttp", daemon=True).start()
    _import_structlog()


def _import_aiohttp() -> None:
    """Import aiohttp. It parses the system's certificate authorities, and the interpreter's lock is free meanwhile."""
    import aiohttp  # noqa: F401, PLC0415


def _import_structlog() -> None:
    """Import structlog without Rich, which takes longer than structlog itself. The provider logs plain tracebacks."""
    if "rich" in sys.modules or "structlog" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # how Python marks a module that cannot be imported
    try:
        import structlog  # noqa: F401, PLC0415
    finally:
        del sys.modules["rich"]
