"""The handle of a control plane: start one, join a running one, release it, stop it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from devnet.children import started_at
from devnet.controlplane.certificates import Outward
from devnet.controlplane.contents import DEFAULT_NODES, NodeSpec
from devnet.controlplane.holders import FIFO, announce, holders_lock, retract, supervisor_lock
from devnet.controlplane.members import Layout
from devnet.controlplane.state import State, read_state, write_state
from devnet.controlplane.supervisor import Request
from devnet.errors import ControlPlaneFailed
from devnet.tools import CONTROL_PLANE, Toolbox

__all__ = ["ControlPlane", "stop_supervisor"]

_START_S = 90.0
_STOP_S = 15.0


class ControlPlane:
    """A running control plane, made by `start` or `share`; both return when the nodes can take pods (about 5 s).

    A context manager, whose end releases it. It stops when its last holder releases it or ends.
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
        """Start one in this folder, which is made if missing; an earlier cluster in the folder continues.

        `detached`: it outlives this process, until `stop` or `stop_supervisor`. `toolbox` must have CONTROL_PLANE.
        `outward`: settings for a real node. Raises `ControlPlaneFailed`, also if one runs there already.
        """
        data = _prepared(data)
        with holders_lock(data):
            plane = cls._spawn(data, toolbox, nodes=nodes, outward=outward, detached=detached)
        return plane._wait_until_ready()

    @classmethod
    def share(cls, data: Path, toolbox: Toolbox, *, nodes: Sequence[NodeSpec] = DEFAULT_NODES) -> Self:
        """Join the one in this folder, or start it. It stops when the last holder calls `release` or ends."""
        data = _prepared(data)
        deadline = time.monotonic() + _STOP_S
        while time.monotonic() < deadline:
            with holders_lock(data):
                plane = cls._joined(data, toolbox, nodes=nodes)
            if plane is not None:
                return plane._wait_until_ready()
            time.sleep(0.05)  # the running one is stopping, and needs the lock for that
        raise ControlPlaneFailed("the one that runs there takes no holders and does not end", logs=data / "logs")

    @classmethod
    def _joined(cls, data: Path, toolbox: Toolbox, *, nodes: Sequence[NodeSpec]) -> Self | None:
        """With the lock held: a new one if none runs, a hold on the running one, or None while that one is stopping."""
        running = read_state(data)
        if running is None or not running.supervised():
            return cls._spawn(data, toolbox, nodes=nodes, outward=None, detached=False)
        with contextlib.suppress(OSError):  # no FIFO, or no reader: it is stopping
            hold = os.open(data / FIFO, os.O_WRONLY | os.O_NONBLOCK)
            announce(hold)
            return cls(data, toolbox, hold=hold, child=None)
        return None

    @classmethod
    def _spawn(
        cls, data: Path, toolbox: Toolbox, *, nodes: Sequence[NodeSpec], outward: Outward | None, detached: bool
    ) -> Self:
        """Start the supervisor in a new session. Raises `ControlPlaneFailed` if one runs."""
        with supervisor_lock(data) as lock:
            if lock is None:
                problem = "one runs there already; stop it with `lessor devnet down`, or name another folder by --data"
                raise ControlPlaneFailed(problem, logs=data / "logs")
            return cls._spawn_with(data, toolbox, lock, nodes=nodes, outward=outward, detached=detached)

    @classmethod
    def _spawn_with(
        cls,
        data: Path,
        toolbox: Toolbox,
        lock: int,
        *,
        nodes: Sequence[NodeSpec],
        outward: Outward | None,
        detached: bool,
    ) -> Self:
        programs = {name: str(toolbox.program(name)) for name in CONTROL_PLANE}
        Request(programs, str(toolbox.share("metallb-controller") / "crds"), tuple(nodes), outward).write(data)
        if detached:
            with Path(os.devnull).open("rb") as nothing:
                child = _spawn_supervisor(data, nothing.fileno(), lock, "--detached")
            return cls(data, toolbox, hold=None, child=child)
        hold, child = _spawn_held(data, lock)
        return cls(data, toolbox, hold=hold, child=child)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, self-contained."""
        return Layout(self.data, 0, 0, 0).kubeconfig

    @property
    def api_server(self) -> str:
        """`https://127.0.0.1:PORT`."""
        return self.state().api_server

    @property
    def ca(self) -> Path:
        """The PEM file of the certificate authority."""
        return Layout(self.data, 0, 0, 0).certificates.certificate("ca")

    @property
    def logs(self) -> Path:
        """The folder with one log a process."""
        return self.data / "logs"

    def env(self) -> dict[str, str]:
        """The environment for child processes: the toolbox's, and KUBECONFIG."""
        return self.toolbox.env() | {"KUBECONFIG": str(self.kubeconfig)}

    def state(self) -> State:
        """The state that the supervisor publishes. Raises `ControlPlaneFailed` if there is none."""
        found = read_state(self.data)
        if found is None:
            raise ControlPlaneFailed("no supervisor ran in this folder", logs=self.logs)
        return found

    def release(self) -> None:
        """Release it; the last holder waits until everything has stopped. A second call does nothing."""
        hold, self._hold = self._hold, None
        if hold is None:
            return
        retract(hold)
        _wait(lambda: not (self.data / FIFO).exists(), seconds=0.5)  # the supervisor removes it after the last holder
        if not (self.data / FIFO).exists():
            self._wait_for_end()

    def stop(self) -> None:
        """Stop it for all holders, and wait until everything has stopped."""
        stop_supervisor(self.data)
        self.release()
        self._wait_for_end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _wait_until_ready(self) -> Self:
        try:
            _wait(self._is_ready, seconds=_START_S)
            if self.state().phase != "ready":
                raise ControlPlaneFailed(f"it was not ready after {_START_S:.0f} s", logs=self.logs)
        except BaseException:
            self.release() if self._hold is not None else self.stop()
            raise
        return self

    def _is_ready(self) -> bool:
        found = read_state(self.data)
        if found is not None and found.phase in ("failed", "stopping", "stopped"):
            raise ControlPlaneFailed(found.problem or "it was stopped during its start", logs=self.logs)
        if found is not None and not found.supervised():
            raise ControlPlaneFailed("its supervisor ended (see supervisor.log)", logs=self.logs)
        return found is not None and found.phase == "ready"

    def _wait_for_end(self) -> None:
        """Wait for the supervisor's end, and reap it if it is a child of this process."""
        found = read_state(self.data)
        if found is not None:
            _wait(lambda: not found.supervised(), seconds=_STOP_S)
        if self._child is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._child, os.WNOHANG)


def stop_supervisor(data: Path) -> bool:
    """Stop the control plane in this folder and wait for its end; False if none runs."""
    found = read_state(data)
    if found is None or not found.supervised():
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(found.pid, signal.SIGTERM)
    _wait(lambda: not found.supervised(), seconds=_STOP_S)
    if found.supervised():
        os.kill(found.pid, signal.SIGKILL)  # its children are bound to it
    return True


def _prepared(data: Path) -> Path:
    data = data.absolute()
    (data / "logs").mkdir(parents=True, exist_ok=True)
    return data


def _spawn_held(data: Path, lock: int) -> tuple[int, int]:
    """Start the supervisor with this process as its first holder; the writing end of the FIFO, and the pid."""
    (data / FIFO).unlink(missing_ok=True)
    os.mkfifo(data / FIFO, 0o600)
    reading = os.open(data / FIFO, os.O_RDONLY | os.O_NONBLOCK)
    # The writer comes before the supervisor reads: a reader that never had a writer gets no end of file.
    hold = os.open(data / FIFO, os.O_WRONLY)
    announce(hold)
    try:
        return hold, _spawn_supervisor(data, reading, lock)
    finally:
        os.close(reading)


def _spawn_supervisor(data: Path, stdin: int, lock: int, *options: str) -> int:
    """Start the supervisor and return its pid. It may outlive this process, which Popen would report as a leak."""
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
            (os.POSIX_SPAWN_DUP2, lock, 3),
        ],
        setsid=True,
    )
    write_state(
        data, State("starting", child, started_at(child))
    )  # before the supervisor does, so that no second one is started
    return child


def _wait(done: Callable[[], bool], *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:
        time.sleep(0.02)
