"""The supervisor: the process that starts the control plane, fills it, watches it and ends with it.

It ends when a member ends, on SIGTERM, SIGINT or SIGHUP, when its last holder has released it or ended (`holders`), or
when the process that LESSOR_DEVNET_OWNER names ends. Its children are bound to it (`devnet.children`).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from devnet.children import OWNER, start_bound, started_at
from devnet.controlplane.api import Api, retry, wait_until
from devnet.controlplane.certificates import Outward, make_certificates
from devnet.controlplane.contents import STORAGE_CLASSES, NodeSpec, base_objects, node_object, surplus_nodes
from devnet.controlplane.holders import FIFO, Holders, holders_lock, watch_process
from devnet.controlplane.members import Layout, Member, free_ports, members, write_configuration
from devnet.controlplane.stages import kwok_documents
from devnet.controlplane.state import Phase, State, write_state

__all__ = ["Request", "supervise"]

_REQUEST = "request.json"
_START_S = 240.0
_STOP_S = {"kube-apiserver": 3.0, "etcd": 2.0}
_STOP_OTHERS_S = 1.0


@dataclasses.dataclass(frozen=True)
class Request:
    """The request for a control plane: program paths by name, the folder of MetalLB's definitions, the nodes."""

    programs: dict[str, str]
    crds: str
    nodes: tuple[NodeSpec, ...]
    outward: Outward | None = None

    def write(self, data: Path) -> None:
        """Write the request into the data folder for the supervisor."""
        (data / _REQUEST).write_text(json.dumps(dataclasses.asdict(self)))

    @staticmethod
    def read(data: Path) -> Request:
        """Read the request that `write` stored."""
        found: dict[str, Any] = json.loads((data / _REQUEST).read_bytes())
        nodes = tuple(NodeSpec(**node) for node in found["nodes"])
        outward = Outward(**found["outward"]) if found["outward"] else None
        return Request(found["programs"], found["crds"], nodes, outward)


async def supervise(data: Path, *, holders: int | None) -> int:
    """Run the control plane until its end; the exit status. `holders` is the reading end of the FIFO, or None if only a
    signal ends it.
    """
    plane = _Plane(data)
    plane.publish("starting")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, plane.end)
    watched = _watch_holders(plane, holders) if holders is not None else None
    _watch_owner(plane)
    try:
        await _run(plane)
    finally:
        if watched:
            watched.close()
        with holders_lock(data):
            plane.refuse_holders()
        plane.stop()
        plane.publish("failed" if plane.problem else "stopped")
    return 1 if plane.problem else 0


async def _run(plane: _Plane) -> None:
    """Start everything and wait until something requests the end."""
    startup = asyncio.create_task(plane.start_all())
    ended = asyncio.create_task(plane.ended.wait())
    try:
        await asyncio.wait({startup, ended}, return_when=asyncio.FIRST_COMPLETED)
        if startup.done():
            await startup
            await ended
    except Exception as error:
        plane.end(f"{type(error).__name__}: {error}")
        raise
    finally:
        for task in (startup, ended):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await startup


def _watch_holders(plane: _Plane, fifo: int) -> Holders:
    """End the control plane when no holder is left, unless a new one came before this process got the lock."""

    def none_left() -> None:
        with holders_lock(plane.data):
            if not holders.any_left():
                plane.refuse_holders()
                plane.end()

    holders = Holders(fifo, none_left)
    return holders


def _watch_owner(plane: _Plane) -> None:
    """End the control plane when the process that OWNER names ends."""
    owner = os.environ.get(OWNER, "")
    if not owner.isdecimal():
        return
    try:
        watch_process(int(owner), plane.end)
    except ProcessLookupError:
        plane.end(f"{OWNER}={owner}: there is no such process")


class _Plane:
    """The running members of the control plane, and the state that it publishes."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.request = Request.read(data)
        etcd_port, peer_port, api_port = free_ports(3)
        self.layout = Layout(data, etcd_port, peer_port, api_port, self.request.outward)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.ended = asyncio.Event()
        self.problem = ""
        self.stopping = False

    def publish(self, phase: Phase) -> None:
        pids = {name: process.pid for name, process in self.running.items()}
        pid = os.getpid()
        write_state(self.data, State(phase, pid, started_at(pid), self.layout.api_server, self.problem, pids))

    def refuse_holders(self) -> None:
        """Refuse new holders from now on; the caller holds the lock."""
        (self.data / FIFO).unlink(missing_ok=True)
        self.publish("stopping")

    def end(self, problem: str = "") -> None:
        """Request the end; the first problem is published."""
        self.problem = self.problem or problem
        self.ended.set()

    def start(self, member: Member) -> None:
        """Start one member and end the control plane when the member ends."""
        argv = [self.request.programs[member.name], *member.args]
        with (self.data / "logs" / f"{member.name}.log").open("ab") as log:
            process = start_bound(argv, output=log, env={**os.environ, **dict(member.env)}, cwd=self.data)
        self.running[member.name] = process
        pidfd = os.pidfd_open(process.pid)
        asyncio.get_running_loop().add_reader(pidfd, self._died, member.name, pidfd)
        self.publish("starting")

    def _died(self, name: str, pidfd: int) -> None:
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        if not self.stopping:
            self.end(f"{name} ended with {self.running[name].wait()} (see {name}.log)")

    async def start_all(self) -> None:
        """Start all members and make the initial objects, until the nodes can take pods."""
        outward = self.request.outward
        pki = make_certificates(self.data / "pki", outward)
        write_configuration(self.layout, kwok_documents(() if outward else STORAGE_CLASSES))
        etcd, api_server, *controllers, metallb = members(self.layout)
        self.start(etcd)
        self.start(api_server)
        api = Api(self.layout.api_port, pki)
        await wait_until(api.ready, seconds=_START_S, what="readiness of the API server")
        for member in controllers:
            self.start(member)
        for node in self.request.nodes:
            await retry(api.create_node, node_object(node))
        await retry(self._remove_surplus_nodes, api)
        for manifest in base_objects(Path(self.request.crds)):
            await retry(api.apply, manifest)
        await wait_until(api.definitions_are_served, seconds=_START_S, what="serving of MetalLB's definitions")
        self.start(metallb)
        count = len(self.request.nodes)
        await wait_until(lambda: api.nodes_are_ready(count), seconds=_START_S, what="readiness of the nodes")
        self.publish("ready")

    def _remove_surplus_nodes(self, api: Api) -> None:
        wanted = {node.name for node in self.request.nodes}
        found, real = api.request("GET", "/api/v1/nodes")["items"], self.request.outward is not None
        for surplus in surplus_nodes(found, wanted, real=real):
            api.delete(surplus)

    def stop(self) -> None:
        """Stop the controllers, then the API server, then etcd. A member that does not end in time is killed."""
        self.stopping = True
        last = ("kube-apiserver", "etcd")
        self._stop([name for name in self.running if name not in last])
        for name in last:
            self._stop([name])

    def _stop(self, names: Iterable[str]) -> None:
        stopping = [(name, self.running[name]) for name in names if name in self.running]
        for _, process in stopping:
            process.terminate()
        for name, process in stopping:
            try:
                process.wait(timeout=_STOP_S.get(name, _STOP_OTHERS_S))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
