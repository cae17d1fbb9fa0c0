"""The process that owns the control plane: starts it, fills it, watches it, and ends with it.

It ends when a member dies, when it gets SIGTERM, SIGINT or SIGHUP, when its last holder let go or died in whatever way
(`holders`), or when the process that LESSOR_DEVNET_OWNER names ends. Its own children are bound to it
(`devnet.children`).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from devnet.children import start_bound, started_at
from devnet.controlplane.api import Api, insist, wait_until
from devnet.controlplane.certificates import Outward, make_certificates
from devnet.controlplane.contents import STORAGE_CLASSES, NodeSpec, base_objects, node_object
from devnet.controlplane.holders import FIFO, Holders, watch_process
from devnet.controlplane.members import Layout, Member, free_ports, members, write_configuration
from devnet.controlplane.stages import kwok_documents
from devnet.controlplane.state import Phase, State, write_state

__all__ = ["HOLDERS_LOCK", "OWNER", "Request", "supervise"]

HOLDERS_LOCK = "holders.lock"
OWNER = "LESSOR_DEVNET_OWNER"
"""A process by its number: no control plane that was started with this in its environment outlives it."""
_REQUEST = "request.json"
_START_SECONDS = 60.0
_STOP_SECONDS = {"kube-apiserver": 3.0, "etcd": 2.0}
_STOP_SECONDS_OTHERS = 1.0


@dataclasses.dataclass(frozen=True)
class Request:
    """What to run: program paths by name, the folder of MetalLB's definitions, the nodes."""

    programs: dict[str, str]
    crds: str
    nodes: tuple[NodeSpec, ...]
    outward: Outward | None = None

    def write(self, data: Path) -> None:
        """Leave it in the data folder for the supervisor."""
        (data / _REQUEST).write_text(json.dumps(dataclasses.asdict(self)))

    @staticmethod
    def read(data: Path) -> Request:
        """What `write` left."""
        found: dict[str, Any] = json.loads((data / _REQUEST).read_bytes())
        nodes = tuple(NodeSpec(**node) for node in found["nodes"])
        outward = Outward(**found["outward"]) if found["outward"] else None
        return Request(found["programs"], found["crds"], nodes, outward)


class _Plane:
    """The members that run, and what is told about them."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.request = Request.read(data)
        etcd_port, peer_port, api_port = free_ports(3)
        self.layout = Layout(data, etcd_port, peer_port, api_port, self.request.outward)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.ended = asyncio.Event()
        self.problem = ""
        self.stopping = False

    def tell(self, phase: Phase) -> None:
        pids = {name: process.pid for name, process in self.running.items()}
        pid = os.getpid()
        write_state(self.data, State(phase, pid, started_at(pid), self.layout.api_server, self.problem, pids))

    def refuse_holders(self) -> None:
        """From now on nobody joins; call it with the lock held."""
        (self.data / FIFO).unlink(missing_ok=True)
        self.tell("stopping")

    def end(self, problem: str = "") -> None:
        """Ask for the end; the first problem is the one that is told."""
        self.problem = self.problem or problem
        self.ended.set()

    def start(self, member: Member) -> None:
        """Start one member and notice its death."""
        argv = [self.request.programs[member.name], *member.args]
        with (self.data / "logs" / f"{member.name}.log").open("ab") as log:
            process = start_bound(argv, output=log, env={**os.environ, **dict(member.env)}, cwd=self.data)
        self.running[member.name] = process
        pidfd = os.pidfd_open(process.pid)
        asyncio.get_running_loop().add_reader(pidfd, self._died, member.name, pidfd)
        self.tell("starting")

    def _died(self, name: str, pidfd: int) -> None:
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        if not self.stopping:
            self.end(f"{name} ended with {self.running[name].wait()} (see {name}.log)")

    async def bring_up(self) -> None:
        """From nothing to nodes that take pods."""
        outward = self.request.outward
        pki = make_certificates(self.data / "pki", outward)
        write_configuration(self.layout, kwok_documents(() if outward else STORAGE_CLASSES))
        etcd, api_server, *controllers, metallb = members(self.layout)
        self.start(etcd)
        self.start(api_server)
        api = Api(self.layout.api_port, pki)
        await wait_until(api.ready, seconds=_START_SECONDS, what="readiness of the API server")
        for member in controllers:
            self.start(member)
        for node in self.request.nodes:
            await insist(api.create_node, node_object(node))
        for manifest in base_objects(Path(self.request.crds)):
            await insist(api.apply, manifest)
        await wait_until(api.definitions_are_served, seconds=_START_SECONDS, what="serving of MetalLB's definitions")
        self.start(metallb)
        count = len(self.request.nodes)
        await wait_until(lambda: api.nodes_are_ready(count), seconds=_START_SECONDS, what="readiness of the nodes")
        self.tell("ready")

    def stop(self) -> None:
        """Controllers first, then the API server, then etcd; whoever does not end in time is killed."""
        self.stopping = True
        last = ("kube-apiserver", "etcd")
        self._stop([name for name in self.running if name not in last])
        for name in last:
            self._stop([name])

    def _stop(self, names: Iterable[str]) -> None:
        going = [(name, self.running[name]) for name in names if name in self.running]
        for _, process in going:
            process.terminate()
        for name, process in going:
            try:
                process.wait(timeout=_STOP_SECONDS.get(name, _STOP_SECONDS_OTHERS))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _watch_holders(plane: _Plane, fifo: int) -> Holders:
    """End when nobody holds any more, unless a new one came before we held the lock."""

    def none_left() -> None:
        with _locked(plane.data):
            if not holders.anybody():
                plane.refuse_holders()
                plane.end()

    holders = Holders(fifo, none_left)
    return holders


def _watch_owner(plane: _Plane) -> None:
    """End with the process that the environment names, if it names one."""
    owner = os.environ.get(OWNER, "")
    if not owner.isdecimal():
        return
    try:
        watch_process(int(owner), plane.end)
    except ProcessLookupError:
        plane.end(f"{OWNER}={owner}: there is no such process")


@contextlib.contextmanager
def _locked(data: Path) -> Iterator[None]:
    with (data / HOLDERS_LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


async def _until_the_end(plane: _Plane) -> None:
    """Bring the plane up and wait until something ends it."""
    coming_up = asyncio.create_task(plane.bring_up())
    ended = asyncio.create_task(plane.ended.wait())
    try:
        await asyncio.wait({coming_up, ended}, return_when=asyncio.FIRST_COMPLETED)
        if coming_up.done():
            await coming_up
            await ended
    except Exception as error:
        plane.end(f"{type(error).__name__}: {error}")
        raise
    finally:
        for task in (coming_up, ended):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await coming_up


async def supervise(data: Path, *, holders: int | None) -> int:
    """Run until the end; the exit status. `holders`: reading end of the FIFO, None when only a signal ends it."""
    plane = _Plane(data)
    plane.tell("starting")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, plane.end)
    watched = _watch_holders(plane, holders) if holders is not None else None
    _watch_owner(plane)
    try:
        await _until_the_end(plane)
    finally:
        if watched:
            watched.close()
        with _locked(data):
            plane.refuse_holders()
        plane.stop()
        plane.tell("failed" if plane.problem else "stopped")
    return 1 if plane.problem else 0
