"""What `lessor doctor` checks of the provider: whether home and engine are closed to other users, and its Redis."""

from __future__ import annotations

import asyncio
from pathlib import Path

from provider.cli.output import warn
from provider.daemon.private_home import home_problems
from provider.errors import SettingsError
from provider.settings import load_settings
from provider.store.damage import damaged_files, sqlite_file
from stacks.common import fence_problem

__all__ = ["home_is_open"]

_ANSWER_S = 5.0


def home_is_open() -> bool:
    """Whether other users reach the home or the engine, or a Redis that is set does not answer; a warning for each
    problem is printed on standard error.
    """
    try:
        problems = home_problems(load_settings())
    except (SettingsError, OSError):
        problems = ()  # `lessor run` and `lessor settings` name wrong settings
    for problem in problems:
        warn(problem)
    for kept in _set_aside():
        warn(f"a damaged database is kept as {kept}; move it away when it is read")
    if bus := asyncio.run(_bus_problem()):
        warn(bus)
    if unfenced := fence_problem():
        warn(f"other users of this machine can reach the engine's listeners while it works: {unfenced}")
    return bool(problems or bus or unfenced)


def _set_aside() -> list[Path]:
    """The damaged databases that a provider has set aside; they are no fault of this machine's setup."""
    try:
        path = sqlite_file(load_settings().database_url)
    except (SettingsError, OSError):
        return []
    return damaged_files(path) if path is not None else []


async def _bus_problem() -> str:
    """Why the Redis of LESSOR_BUS_URL does not answer; empty when it does, or when none is set."""
    try:
        url = load_settings().bus_url.get_secret_value()
    except (SettingsError, OSError):
        return ""
    if not url:
        return ""
    from provider.daemon.backends import bus_url_problem  # noqa: PLC0415  half a second, and most providers have no Redis

    if problem := bus_url_problem(url):
        return f"LESSOR_BUS_URL: {problem}"
    from provider.bus.redis_url import redis_client, shown_url  # noqa: PLC0415  most providers have no Redis

    try:
        async with redis_client(url, timeout_s=_ANSWER_S) as client:
            await client.ping()
    except Exception as error:  # whatever answers at that address
        return (
            f"LESSOR_BUS_URL={shown_url(url)}: {type(error).__name__}: {error}; other processes hear nothing until then"
        )
    return ""
