"""SQLAlchemy's engine for asyncio without its sessions: they load the ORM, a twentieth of a start, and nothing uses it.

Every module of the provider takes the names of `sqlalchemy.ext.asyncio` from here. Whoever wants a session imports
`sqlalchemy.ext.asyncio.session` itself.
"""

from __future__ import annotations

import sys
from types import ModuleType

__all__ = ["AsyncConnection", "AsyncEngine", "create_async_engine"]

_PACKAGE = "sqlalchemy.ext.asyncio"
_SESSIONS = (f"{_PACKAGE}.scoping", f"{_PACKAGE}.session")


def _import_without_sessions() -> None:
    """Import the package while empty modules stand in the place of those of its sessions, unless it is loaded."""
    if _PACKAGE in sys.modules:
        return
    for name in _SESSIONS:
        sys.modules[name] = module = ModuleType(name)
        vars(module)["__getattr__"] = lambda _: None  # whatever name the package takes from it
    try:
        import sqlalchemy.ext.asyncio  # noqa: F401, PLC0415
    finally:
        for name in _SESSIONS:
            del sys.modules[name]


_import_without_sessions()

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine  # noqa: E402
