"""The handle on a control plane: start one, join a running one, let go of it, stop it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from devnet.children import started_at
from devnet.controlplane.certificates import Outward
from devnet.controlplane.contents import DEFAULT_NODES, NodeSpec
from devnet.controlplane.holders import FIFO, announce, retract
from devnet.controlplane.members import Layout
from devnet.controlplane.state import State, read_state, write_state
from devnet.controlplane.supervisor import HOLDERS_LOCK, Request
from devnet.errors import ControlPlaneFailed
from devnet.tools import CONTROL_PLANE, Toolbox

__all__ = ["ControlPlane", "stop_supervisor"]

_START_SECONDS = 90.0
_STOP_SECONDS = 15.0


class ControlPlane:
    """A running control plane. Make one with `start` or `share`; both return when nodes take pods (about 5 s).

    A context manager: leaving it lets go, and whoever lets go last stops it, also by dying.
    """

    def __init__(self, data: Path, toolbox: Toolbox, *, hold: int | None, child: int | None) -> None:
        self.data = data
        self.toolbox = toolbox
        self._hold = hold
        self._child = child

    @classmethod
    def start(
        cls,
        data: Path,
        toolbox: Toolbox,
        *,
        nodes: Sequence[NodeSpec] = DEFAULT_NODES,
        outward: Outward | None = None,
        detached: bool = False,
    ) -> Self:
        """Start one in this folder (made if missing; a folder used before goes on where it stopped).

        `detached`: it outlives this process, until `stop` or `stop_supervisor`. Raises ControlPlaneFailed, also when
        one runs there already. `toolbox` must hold CONTROL_PLANE. `outward`: a real node joins (see Outward).
        """
        data = _prepared(data)
        with _locked(data):
            running = read_state(data)
            if running is not None and running.supervised():
                problem = f"one runs there already (process {running.pid}); stop it with `lessor devnet down`"
                raise ControlPlaneFailed(problem, logs=data / "logs")
            plane = cls._spawn(data, toolbox, nodes=nodes, outward=outward, detached=detached)
        return plane._ready()

    @classmethod
    def share(cls, data: Path, toolbox: Toolbox, *, nodes: Sequence[NodeSpec] = DEFAULT_NODES) -> Self:
        """Join the one in this folder, or start it. The last of all who joined stops it, by `release` or by dying."""
        data = _prepared(data)
        deadline = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < deadline:
            with _locked(data):
                plane = cls._joined(data, toolbox, nodes=nodes)
            if plane is not None:
                return plane._ready()
            time.sleep(0.05)  # one is stopping, and needs the lock for that
        raise ControlPlaneFailed("one runs there that can neither be joined nor ends", logs=data / "logs")

    @classmethod
    def _joined(cls, data: Path, toolbox: Toolbox, *, nodes: Sequence[NodeSpec]) -> Self | None:
        """With the lock held: a new one where none runs, a hold on one that takes holders, else None."""
        running = read_state(data)
        if running is None or not running.supervised():
            return cls._spawn(data, toolbox, nodes=nodes, outward=None, detached=False)
        with contextlib.suppress(OSError):  # no FIFO, or nobody reads it: it is stopping
            hold = os.open(data / FIFO, os.O_WRONLY | os.O_NONBLOCK)
            announce(hold)
            return cls(data, toolbox, hold=hold, child=None)
        return None

    @classmethod
    def _spawn(
        cls, data: Path, toolbox: Toolbox, *, nodes: Sequence[NodeSpec], outward: Outward | None, detached: bool
    ) -> Self:
        """The supervisor, in a session of its own, reading the FIFO that we told our process through."""
        programs = {name: str(toolbox.program(name)) for name in CONTROL_PLANE}
        Request(programs, str(toolbox.share("metallb-controller") / "crds"), tuple(nodes), outward).write(data)
        if detached:
            with Path(os.devnull).open("rb") as nothing:
                child = _spawn_supervisor(data, nothing.fileno(), "--detached")
            return cls(data, toolbox, hold=None, child=child)
        (data / FIFO).unlink(missing_ok=True)
        os.mkfifo(data / FIFO, 0o600)
        reading = os.open(data / FIFO, os.O_RDONLY | os.O_NONBLOCK)
        # A writer before the supervisor looks: a reader that never saw one is never told that all are gone.
        hold = os.open(data / FIFO, os.O_WRONLY)
        announce(hold)
        try:
            child = _spawn_supervisor(data, reading)
        finally:
            os.close(reading)
        return cls(data, toolbox, hold=hold, child=child)

    @property
    def kubeconfig(self) -> Path:
        """An administrator's, self-contained."""
        return Layout(self.data, 0, 0, 0).kubeconfig

    @property
    def api_server(self) -> str:
        """`https://127.0.0.1:PORT`."""
        return self.state().api_server

    @property
    def ca(self) -> Path:
        """PEM of the authority that signed the API server's certificate."""
        return Layout(self.data, 0, 0, 0).certificates.certificate("ca")

    @property
    def logs(self) -> Path:
        """One file a process."""
        return self.data / "logs"

    def env(self) -> dict[str, str]:
        """The environment for child processes: the toolbox's, and KUBECONFIG."""
        return self.toolbox.env() | {"KUBECONFIG": str(self.kubeconfig)}

    def state(self) -> State:
        """What the supervisor says now. ControlPlaneFailed when there is none."""
        found = read_state(self.data)
        if found is None:
            raise ControlPlaneFailed("no supervisor ever told its state", logs=self.logs)
        return found

    def release(self) -> None:
        """Let go; the last holder waits until everything has stopped. Twice does no harm."""
        hold, self._hold = self._hold, None
        if hold is None:
            return
        retract(hold)
        _wait(lambda: not (self.data / FIFO).exists(), seconds=0.5)  # the last holder's leaving removes it
        if not (self.data / FIFO).exists():
            self._gone()

    def stop(self) -> None:
        """Stop it for everybody, and wait until everything has stopped."""
        stop_supervisor(self.data)
        self.release()
        self._gone()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _ready(self) -> Self:
        try:
            _wait(self._is_ready, seconds=_START_SECONDS)
            if self.state().phase != "ready":
                raise ControlPlaneFailed(f"it was not ready after {_START_SECONDS:.0f} s", logs=self.logs)
        except BaseException:
            self.release() if self._hold is not None else self.stop()
            raise
        return self

    def _is_ready(self) -> bool:
        found = read_state(self.data)
        if found is not None and found.phase in ("failed", "stopping", "stopped"):
            raise ControlPlaneFailed(found.problem or "it was stopped while it started", logs=self.logs)
        if found is not None and not found.supervised():
            raise ControlPlaneFailed("its supervisor vanished (see supervisor.log)", logs=self.logs)
        return found is not None and found.phase == "ready"

    def _gone(self) -> None:
        """Wait for the supervisor's end, and take note of it if it is our child."""
        found = read_state(self.data)
        if found is not None:
            _wait(lambda: not found.supervised(), seconds=_STOP_SECONDS)
        if self._child is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._child, os.WNOHANG)


def stop_supervisor(data: Path) -> bool:
    """Stop whatever runs in this folder and wait for its end; False when nothing did."""
    found = read_state(data)
    if found is None or not found.supervised():
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(found.pid, signal.SIGTERM)
    _wait(lambda: not found.supervised(), seconds=_STOP_SECONDS)
    if found.supervised():
        os.kill(found.pid, signal.SIGKILL)  # its children are bound to it
    return True


def _prepared(data: Path) -> Path:
    data = data.absolute()
    (data / "logs").mkdir(parents=True, exist_ok=True)
    return data


@contextlib.contextmanager
def _locked(data: Path) -> Iterator[None]:
    with (data / HOLDERS_LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _spawn_supervisor(data: Path, stdin: int, *options: str) -> int:
    """posix_spawn, not Popen: the supervisor may outlive us, which Popen takes for a leak."""
    log = str(data / "logs" / "supervisor.log")
    checkout = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [checkout, os.environ.get("PYTHONPATH")]))
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "devnet.controlplane", str(data), *options],
        {**os.environ, "PYTHONPATH": path},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, stdin, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    write_state(data, State("starting", child, started_at(child)))  # before it can itself: nobody starts a second one
    return child


def _wait(done: Callable[[], bool], *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:
        time.sleep(0.02)
