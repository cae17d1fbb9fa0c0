"""The handle on an enclosure: start one, run commands in it, stop it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from devnet.children import OWNER, alive, bound_to_parent, start_bound, started_at
from devnet.errors import EnclosureFailed
from devnet.node.cgroups import remove_cgroups
from devnet.node.mounts import REPLACED
from devnet.node.requirements import missing_requirements
from devnet.node.signals import ENDING_SIGNALS, run_forwarding

__all__ = [
    "Enclosure",
    "check_place",
    "first_process",
    "is_enclosed",
    "own_enclosure",
    "remove_ended",
    "write_first",
    "write_mark",
]

_MARK = Path("/run/lessor-enclosure")
"""The folder of the enclosure and the name of its network namespace, a line each. /run is the enclosure's own."""
_START_S = 30.0
_STOP_S = 30.0
_STOPPED = "stopped"
"""The file that says that somebody else than its holder stopped the enclosure."""
_LOG = "enclosure.log"
"""The first file of an enclosure, and the last one that goes: it shows that an enclosure made the folder."""


class Enclosure:
    """A running enclosure in a folder of its own. A context manager: leaving it stops everything inside.

    `FOLDER/first` names the enclosure's first process as `PID STARTED`, `FOLDER/cgroups` its cgroups, a line each.
    """

    def __init__(self, folder: Path, *, lock: int | None = None) -> None:
        self.folder = folder
        self._lock = lock
        self._runner: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(cls, folder: Path, *, fresh: bool = False) -> Self:
        """Start an enclosure bound to the calling thread's life. EnclosureFailed says what the machine lacks.

        `fresh`: the files of an earlier enclosure in the folder are removed first.
        """
        problems = missing_requirements(build=False)
        if problems:
            raise EnclosureFailed("; ".join(problems))
        folder = folder.absolute()
        made = cls(folder, lock=_held(folder))
        try:
            _clear(folder, fresh=fresh)
            made._start_runner()
            made._await_first()
        except OSError as error:
            made.stop()
            raise EnclosureFailed(f"{folder} cannot be used: {error}") from None
        except BaseException:
            made.stop()
            raise
        return made

    @classmethod
    def join(cls, folder: Path) -> Self:
        """The enclosure that runs in this folder. Raises EnclosureFailed when none does, or the caller is not root."""
        folder = folder.absolute()
        if _first(folder) is None:
            raise EnclosureFailed(f"no enclosure runs in {folder}; start one with `lessor devnet up --node real`")
        if os.geteuid() != 0:
            raise EnclosureFailed("only root may enter it; run the command as root, for example by sudo")
        return cls(folder)

    @classmethod
    def stop_in(cls, folder: Path) -> bool:
        """Stop the enclosure of this folder; False when none runs there."""
        running = _first(folder) is not None
        if running:
            (folder / _STOPPED).touch()
        cls(folder).stop()
        return running

    @property
    def was_stopped(self) -> bool:
        """Whether `stop_in` of another process has ended it."""
        return (self.folder / _STOPPED).exists()

    def command(self, argv: Sequence[str | Path]) -> list[str]:
        """The argument list that runs `argv` inside, in the caller's working directory."""
        return [sys.executable, "-m", "devnet.node.entrance", str(self.folder), "--", *map(str, argv)]

    def run(self, argv: Sequence[str | Path], *, forwarded: Collection[signal.Signals] = ENDING_SIGNALS) -> int:
        """Run `argv` inside with the caller's standard streams, forward signals to it, and return its exit status."""
        bind = bound_to_parent()
        return run_forwarding(self.command(argv), env=_environment(), forwarded=forwarded, bind=bind)

    def stop(self) -> None:
        """Stop everything inside, wait for its end, and remove its cgroups. A second call does nothing."""
        first = _first(self.folder)
        if first is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(first, signal.SIGTERM)
            _wait(lambda: _first(self.folder) is None, seconds=_STOP_S)
        if self._runner is not None:
            if first is None or _first(self.folder) is not None:  # None: not recorded yet, so nobody asked it to end
                self._runner.kill()  # its death kills the first process, and that everything else
            self._runner.wait()
            self._runner = None
        clear_leftovers(self.folder)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_runner(self) -> None:
        argv = [sys.executable, "-m", "devnet.node.runner", str(self.folder)]
        with (self.folder / _LOG).open("ab") as log:
            self._runner = start_bound(argv, output=log, env=_environment())

    def _await_first(self) -> None:
        ready = self.folder / "ready"
        _wait(lambda: ready.exists() or self._ended(), seconds=_START_S)
        if not ready.exists():
            lines = (self.folder / _LOG).read_text(errors="replace").splitlines()[-8:]
            raise EnclosureFailed("the enclosure did not start: " + " / ".join(lines))

    def _ended(self) -> bool:
        return self._runner is not None and self._runner.poll() is not None


def write_mark(folder: Path) -> None:
    """Mark the namespaces of the calling process as those of the enclosure in this folder."""
    _MARK.write_text(f"{folder}\n{_network()}\n")


def is_enclosed() -> bool:
    """Whether this process runs in an enclosure. The environment has no say: it outlives namespaces."""
    return _own() is not None


def own_enclosure() -> Path:
    """The folder of the enclosure that this process runs in. Raises EnclosureFailed outside of one."""
    folder = _own()
    if folder is None:
        raise EnclosureFailed("a real node runs inside an enclosure only, and this process is outside")
    return folder


def _own() -> Path | None:
    try:
        folder, network = _MARK.read_text().splitlines()
    except (OSError, ValueError):
        return None
    return Path(folder) if network == _network() else None


def _network() -> str:
    return str(Path("/proc/self/ns/net").readlink())


def clear_leftovers(folder: Path) -> None:
    """Remove the cgroups that an enclosure in this folder has left behind, once its processes are gone."""
    record = folder / "cgroups"
    if record.exists() and _first(folder) is None:
        remaining = remove_cgroups(map(Path, record.read_text().splitlines()))
        with contextlib.suppress(OSError):  # a full disk: the old record names cgroups that are gone, which is harmless
            record.write_text("".join(f"{path}\n" for path in remaining))


def remove_ended(folder: Path) -> bool:
    """Remove the folder of an enclosure that has ended, and its cgroups; False while it runs or is being started."""
    try:
        lock = _locked(folder)
    except (OSError, EnclosureFailed):
        return False
    try:
        if _first(folder) is not None or not (folder / _LOG).exists():
            return False
        clear_leftovers(folder)
        if (folder / "cgroups").exists() and (folder / "cgroups").read_text():
            return False
        shutil.rmtree(folder, ignore_errors=True)
        return True
    finally:
        os.close(lock)


def check_place(folder: Path) -> None:
    """Raise EnclosureFailed for a folder of the machine that cannot be seen inside an enclosure."""
    for place in REPLACED:
        if folder.resolve().is_relative_to(place):
            raise EnclosureFailed(f"{folder} cannot be used: inside an enclosure {place} is another folder")


def _held(folder: Path) -> int:
    """Make the folder, which is this process's until the returned descriptor is closed. Raises EnclosureFailed."""
    check_place(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _locked(folder)
    except OSError as error:
        raise EnclosureFailed(f"{folder} cannot be used: {error}") from None


def _locked(folder: Path) -> int:
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        problem = f"an enclosure runs in {folder} already; stop it with `lessor devnet down`, or name another folder"
        raise EnclosureFailed(problem) from None
    return lock


def _clear(folder: Path, *, fresh: bool) -> None:
    """Take from a held folder what an earlier enclosure has left. Raises EnclosureFailed, OSError.

    An earlier one whose holder was killed is about to end.
    """
    found = [path for path in folder.iterdir() if path.name != _LOG]
    if found and not (folder / _LOG).exists():
        raise EnclosureFailed(f"{folder} holds other files than those of an earlier enclosure; name another folder")
    _wait(lambda: _first(folder) is None, seconds=_STOP_S)
    clear_leftovers(folder)
    if (record := folder / "cgroups").exists() and (remaining := record.read_text().split("\n", 1)[0]):
        raise EnclosureFailed(f"processes of an earlier enclosure do not end; see {remaining}/cgroup.procs")
    for path in found if fresh else (folder / "ready", folder / "first", folder / _STOPPED):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _first(folder: Path) -> int | None:
    """The first process of the enclosure as the caller sees it; None when it does not run."""
    try:
        pid, started = map(int, (folder / "first").read_text().split())
    except (OSError, ValueError):
        return None
    return pid if alive(pid, since=started) else None


def _environment() -> dict[str, str]:
    """The caller's environment for the inside, where the process that OWNER names cannot be seen."""
    checkout = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [checkout, os.environ.get("PYTHONPATH")]))
    inherited = {name: value for name, value in os.environ.items() if name != OWNER}
    return {**inherited, "PYTHONPATH": path}


def write_first(folder: Path, pid: int) -> None:
    """Record the enclosure's first process; readers see the old record or the new one."""
    partial = folder / ".first"
    partial.write_text(f"{pid} {started_at(pid)}")
    partial.replace(folder / "first")


def first_process(folder: Path) -> int:
    """The first process of the enclosure in this folder. Raises EnclosureFailed when none runs."""
    pid = _first(folder)
    if pid is None:
        raise EnclosureFailed(f"no enclosure runs in {folder}")
    return pid


def _wait(done: Callable[[], bool], *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:
        time.sleep(0.02)
