"""Maintenance: an operator has drained the provider or some nodes, until a time or until `lessor undrain`.

A drained provider makes no bids, a drained node takes no new lease. Nothing is closed, moved or stopped: leases, the
gateway, withdrawals and ends go on, and tenants read of it in the lease status. The state is a file in the home, which
a command writes and the running provider reads, so it survives a restart and needs no running provider.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

__all__ = [
    "Drain",
    "Maintenance",
    "change_maintenance",
    "maintenance_path",
    "read_maintenance",
    "watched_maintenance",
    "write_maintenance",
]

_MAX_BYTES = 256 * 1024
_LAST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
"""No later time can be shown."""
_TURN_S, _TRIES = 0.05, 200


class Drain(BaseModel):
    """`since` and `until` in Unix seconds; `until` None: until an operator ends it. `reason`: tenants read it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    since: float = Field(ge=0, le=_LAST)
    until: float | None = Field(None, ge=0, le=_LAST)
    reason: str = Field("", max_length=300)

    def holds(self, now: float) -> bool:
        return self.until is None or now < self.until

    @property
    def text(self) -> str:
        """` until 2026-01-02T03:04Z: new disks`, without what is not known."""
        end = "" if self.until is None else f" until {datetime.fromtimestamp(self.until, UTC):%Y-%m-%dT%H:%MZ}"
        return end + (f": {self.reason}" if self.reason else "")


class Maintenance(BaseModel):
    """`provider`: the whole provider is drained. `nodes`: drained nodes, by name."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    provider: Drain | None = None
    nodes: Mapping[str, Drain] = Field(default_factory=dict)

    def now(self, at: float) -> Maintenance:
        """What holds at the time `at`, in Unix seconds."""
        whole = self.provider if self.provider and self.provider.holds(at) else None
        return Maintenance(provider=whole, nodes={name: each for name, each in self.nodes.items() if each.holds(at)})

    @property
    def bids(self) -> str:
        """Why no bids are made; empty while they are."""
        return f"drained{self.provider.text}; `lessor undrain` ends it" if self.provider else ""

    def tenants(self, nodes: Iterable[str] = ()) -> str:
        """What a tenant reads whose pods run on `nodes`; empty without maintenance of them."""
        if self.provider:
            return f"the provider is in maintenance{self.provider.text}"
        drained = next((self.nodes[name] for name in nodes if name in self.nodes), None)
        return f"a node of this lease is in maintenance{drained.text}" if drained else ""


def maintenance_path(home: Path) -> Path:
    return home / "maintenance.json"


def read_maintenance(home: Path) -> Maintenance:
    """What the file says, ended maintenance too; nothing without a file. Raises OSError, and ValueError for a file that
    no command has written.
    """
    try:
        descriptor = os.open(maintenance_path(home), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return Maintenance()
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(_MAX_BYTES + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    if not data or len(data) > _MAX_BYTES:
        raise ValueError(f"{maintenance_path(home)} is no file of `lessor drain`; remove it")
    try:
        return Maintenance.model_validate_json(data)
    except ValidationError:
        raise ValueError(f"{maintenance_path(home)} is no file of `lessor drain`; remove it") from None


def write_maintenance(home: Path, state: Maintenance) -> None:
    """Replace the file, whole or not at all. Raises OSError."""
    path = maintenance_path(home)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(state.model_dump_json())
            file.flush()
            os.fsync(descriptor)
        fresh.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise


def change_maintenance(
    home: Path, change: Callable[[Maintenance], Maintenance], *, now: Callable[[], float] = time.time
) -> Maintenance:
    """Write what `change` makes of what holds now, and return it. Two commands at once change one after the other.
    Raises as `read_maintenance`.
    """
    with _turn(home):
        state = change(read_maintenance(home).now(now()))
        write_maintenance(home, state)
    return state


@contextlib.contextmanager
def _turn(home: Path) -> Iterator[None]:
    """The lock of the folder itself, so that no file is left in it."""
    descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _ in range(_TRIES):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(_TURN_S)
        else:
            raise OSError(errno.EBUSY, "another command has locked the folder", str(home))
        yield
    finally:
        os.close(descriptor)


def watched_maintenance(
    home: Path, *, now: Callable[[], float] = time.time, problem: Callable[[str], None] = lambda _: None
) -> Callable[[], Maintenance]:
    """A function that returns what holds now. The file is read again when it changes; `problem` is called once for a
    file that cannot be read, and what was read last goes on holding.
    """
    seen: object = None
    current = Maintenance()

    def state() -> Maintenance:
        nonlocal seen, current
        mark = _mark(maintenance_path(home))
        if mark != seen:
            seen = mark
            try:
                current = read_maintenance(home)
            except (OSError, ValueError) as error:
                problem(str(error))
        return current.now(now())

    return state


def _mark(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino)
