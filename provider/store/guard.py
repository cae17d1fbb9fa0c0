"""The guard of the store's file: a damaged or missing one is set aside and an empty one takes its place, at the start
and while the provider runs.

The store is a cache and a log. What leases need of it comes from chain and cluster, or from the memory of the running
provider, whose parts write their rows again (`replaced`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from provider.errors import StoreError
from provider.protocols import Clock
from provider.repeats import Repeats
from provider.store.damage import Schema, damaged_files, file_problem, set_aside, sqlite_file
from provider.store.database import Database, newest_schema, open_database
from provider.store.tables import metadata

__all__ = ["StoreGuard", "open_guarded"]

_EVERY_S = 5.0
_PAUSE_S = 60.0
"""After a replacement: a disk that breaks each new file must not make the provider do nothing else."""
_SCHEMA = Schema(newest_schema(), frozenset(metadata.tables))
_AGAIN_S = 20.0
"""After a look at all pages that changed nothing: a disk that fails must not be read all the time."""
_GONE = "the file is gone"
_log = structlog.get_logger("lessor")


async def open_guarded(url: str, clock: Clock, *, known: bool = False) -> tuple[Database, StoreGuard]:
    """The database of the daemon, a damaged file of SQLite replaced by an empty one. `known`: this home had one before,
    so that a missing file is a lost one. Raises `StoreError`, also for a damaged file that cannot be set aside.
    """
    path = sqlite_file(url)
    problem = await asyncio.to_thread(file_problem, path, _SCHEMA, used=known) if path is not None else ""
    if path is not None and problem:
        kept = await asyncio.to_thread(set_aside, path, now=clock.now())
        _say(path, problem, kept)
    elif path is not None and known and not path.exists():
        problem = _GONE
        _say(path, problem, None)
    database = await open_database(url)
    guard = StoreGuard(database, url, clock)
    if path is not None and problem:
        guard.note(problem)
    return database, guard


class StoreGuard:
    """`run` watches the file for ever; it does nothing for a database that is no file. `began_anew`: the database is an
    empty one since this process started.
    """

    def __init__(self, database: Database, url: str, clock: Clock) -> None:
        self._database = database
        self._url = url
        self._clock = clock
        self._path = sqlite_file(url)
        self._identity = _identity(self._path)
        self._losses: list[str] = []
        self._problem = ""
        self._repeats = Repeats(clock.monotonic)
        self._not_before = 0.0

    @property
    def began_anew(self) -> bool:
        return bool(self._losses)

    def note(self, problem: str) -> None:
        """The database is an empty one because of `problem`."""
        self._losses.append(problem)

    def status(self) -> dict[str, object]:
        """`set_aside`: the damaged files that are kept, newest first; `losses`: why this process has begun an empty
        database, oldest first; `problem`: why a damaged one cannot be replaced.
        """
        kept = damaged_files(self._path) if self._path is not None else []
        return {"set_aside": [str(each) for each in kept], "losses": list(self._losses), "problem": self._problem}

    async def run(self, replaced: Callable[[], Awaitable[None]]) -> None:
        """`replaced` is called after each replacement, to write again what the provider remembers."""
        while self._path is not None:
            await self._until_due()
            suspected = self._database.suspicion.is_set() or bool(self._problem)
            self._database.suspicion.clear()
            try:
                await self._look_and_write(self._path, replaced, suspected=suspected)
            except (StoreError, OSError) as error:
                self._failed(str(error))
            except Exception:
                self._failed("a defect of this provider, see the log")
                _log.exception("store.not_replaced")  # a defect must not end the daemon, which cares for every lease

    async def _look_and_write(self, path: Path, replaced: Callable[[], Awaitable[None]], *, suspected: bool) -> None:
        if await self._look(path, suspected=suspected):
            await replaced()
        elif suspected:
            self._rest(_AGAIN_S)
        self._problem = ""
        self._repeats.ended("store")

    def _failed(self, problem: str) -> None:
        self._problem = problem
        self._rest(_AGAIN_S)
        if self._repeats.is_news("store", problem):
            _log.error("store.not_replaced", problem=problem, bids="none until it is")

    def _rest(self, seconds: float) -> None:
        self._not_before = self._clock.monotonic() + seconds

    async def _until_due(self) -> None:
        """Wait for an error that damage may have caused, or the next look at the file."""
        rest = self._not_before - self._clock.monotonic()
        if rest > 0:
            await self._clock.sleep(rest)
        looking = asyncio.ensure_future(self._clock.sleep(_EVERY_S))
        suspecting = asyncio.ensure_future(self._database.suspicion.wait())
        try:
            await asyncio.wait({looking, suspecting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            looking.cancel()
            suspecting.cancel()

    async def _look(self, path: Path, *, suspected: bool) -> bool:
        """Look at the file; all of it is read only after a suspicious error. Returns whether the database is another
        one now.
        """
        identity = _identity(path)
        other = identity != self._identity
        problem = await asyncio.to_thread(file_problem, path, _SCHEMA, used=True) if other or suspected else ""
        if problem or identity is None:
            await self._replace(path, problem or _GONE)
        elif other:
            await self._reopen(path)
        return other or bool(problem)

    async def _reopen(self, path: Path) -> None:
        """Somebody has put a sound database in the place of the file."""
        async with self._database.turn, self._database.unused():
            await self._open(path)
        _log.warning("store.reopened", database=str(path), reason="another file is in its place")

    async def _replace(self, path: Path, problem: str) -> None:
        """The new file is complete before the damaged one is touched: on a full disk everything stays as it is."""
        database, fresh = self._database, path.with_name(f"{path.name}.new")
        await asyncio.to_thread(_remove, fresh)
        await (await open_database(f"sqlite+aiosqlite:///{fresh}")).close()
        async with database.turn, database.unused():
            kept = await asyncio.to_thread(_swap, path, fresh, self._clock.now())
            await self._open(path)
        self.note(problem)
        self._rest(_PAUSE_S)
        _say(path, problem, kept)

    async def _open(self, path: Path) -> None:
        self._database.engine = (await open_database(self._url)).engine
        self._database.generation += 1
        self._identity = _identity(path)


def _swap(path: Path, fresh: Path, now: float) -> Path | None:
    kept = set_aside(path, now=now)
    try:
        fresh.rename(path)
    except OSError as error:
        raise StoreError(f"{fresh} cannot be renamed: {error.strerror}") from error
    return kept if os.path.lexists(kept) else None


def _remove(fresh: Path) -> None:
    """What a replacement that failed has left."""
    for end in ("", "-wal", "-shm", "-journal"):
        fresh.with_name(fresh.name + end).unlink(missing_ok=True)


def _identity(path: Path | None) -> tuple[int, int] | None:
    """What tells the file apart from another one of the same name; None without one."""
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return None
    return None if found is None else (found.st_dev, found.st_ino)


def _say(path: Path, problem: str, kept: Path | None) -> None:
    _log.error(
        "store.began_anew",
        database=str(path),
        problem=problem,
        kept_as=None if kept is None else str(kept),
        lost="the history before now; leases, claims and bids come from chain and cluster",
    )
