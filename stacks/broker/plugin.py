"""One plugin process: started, called, watched, ended.

The kernel ends it with the broker. It has a folder of its own for temporary files, since the plugin leaves a copy of
the kubeconfig at every configuration. Its stderr is discarded, since it may quote data that was sent to it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path

import grpc
import grpc.aio

from stacks.broker.death import runs
from stacks.broker.errors import PluginLost
from stacks.broker.fields import encode
from stacks.broker.settings import BrokerSettings, PluginStatus
from stacks.common.processes import memory_bytes

__all__ = ["MESSAGE_LIMIT", "Metadata", "Plugin"]

MESSAGE_LIMIT = 400 << 20
"""Bytes; Pulumi's own limit for its gRPC messages."""
SERVICE = "/pulumirpc.ResourceProvider/"
TERM_S = 3.0
_DEATH_S = 10.0
_DOUBTED_DEATH_S = 0.5
_OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    ("grpc.max_send_message_length", MESSAGE_LIMIT),
    ("grpc.enable_http_proxy", 0),
)
_BOUND = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
os.getppid() == int(sys.argv[1]) or sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""PR_SET_PDEATHSIG between fork and exec, without running Python in a fork of a process that has gRPC's threads."""

Metadata = tuple[tuple[str, str | bytes], ...]


class Plugin:
    """A plugin, living or ended. Calls may run side by side."""

    def __init__(self, process: Process, *, port: int, scratch: Path) -> None:
        self._process = process
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=_OPTIONS)
        self._methods: dict[str, grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = {}
        self._scratch = scratch
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._ending: asyncio.Task[None] | None = None
        self.running = self.calls = 0
        self.started_at = self.used_at = time.monotonic()
        self.unanswered = 0
        self.doubt = ""
        self.unreachable = False
        self.configured = False

    @classmethod
    async def start(cls, settings: BrokerSettings, *, engine: str, scratch: Path) -> Plugin:
        """Start one whose engine is at address `engine`. Raises `PluginLost` if it does not report its port in time."""
        scratch.mkdir(mode=0o700, parents=True)
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", _BOUND, str(os.getpid()), *settings.plugin, engine),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=DEVNULL,
                env={
                    "GOMEMLIMIT": str(settings.memory_bytes * 3 // 4),  # it collects harder before it is replaced
                    **os.environ,
                    **settings.environment,
                    "TMPDIR": str(scratch),
                },
                start_new_session=True,
            )
            port = await _port(process, settings.start_seconds)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        return cls(process, port=port, scratch=scratch)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return runs(self._process)

    @property
    def usable(self) -> bool:
        return self.alive and self._ending is None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started_at

    async def call(
        self, method: str, request: bytes, *, metadata: Metadata = (), seconds: float | None = None
    ) -> bytes:
        """Pass a call on. Raises grpc.aio.AioRpcError with the plugin's answer, `PluginLost` if it has ended
        meanwhile.
        """
        with _Running(self):
            try:
                return await self._unary(method)(request, metadata=metadata, timeout=seconds)
            except grpc.aio.AioRpcError as error:
                await self._raise_if_lost(error, method)
                raise

    def stream(self, method: str, request: bytes, *, metadata: Metadata = ()) -> grpc.aio.UnaryStreamCall[bytes, bytes]:
        """As `call`, for an answer of many messages; counted neither as running nor for draining."""
        return self._channel.unary_stream(SERVICE + method, None, None)(request, metadata=metadata)

    async def reaches_its_cluster(self, seconds: float) -> bool:
        """Whether it could load the API server's schema when it was configured.

        If it could not, no answer to Configure says so, it stays so for ever, and previews then invent results. Any
        answer to a read except that complaint means that it could.
        """
        urn = b"urn:pulumi:probe::probe::kubernetes:core/v1:Namespace::probe"
        try:
            await self.call("Read", encode((1, b"kube-system"), (2, urn)), seconds=seconds)
        except grpc.aio.AioRpcError as error:
            return "unreachable" not in (error.details() or "")
        return True

    async def answers(self, seconds: float) -> bool:
        """Whether it answers a request that needs no work. An answer that is no message counts as none."""
        try:
            await self._unary("GetPluginInfo")(b"", timeout=seconds)
        except grpc.aio.AioRpcError as error:
            return error.code() is grpc.StatusCode.UNIMPLEMENTED
        return True

    async def end(self, drain_seconds: float) -> None:
        """Let running calls finish, then SIGTERM, then SIGKILL; returns when the process has ended. May be repeated."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(drain_seconds))
        await asyncio.shield(self._ending)

    def kill(self) -> None:
        """Kill it at once; running calls fail."""
        with suppress(ProcessLookupError):
            self._process.kill()

    def status(self) -> PluginStatus:
        return PluginStatus(
            pid=self.pid,
            seconds=round(self.seconds, 1),
            memory_bytes=memory_bytes(self.pid),
            calls_running=self.running,
            calls=self.calls,
            configured=self.configured,
            retiring=self._ending is not None,
        )

    def _unary(self, method: str) -> grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]:
        if method not in self._methods:
            self._methods[method] = self._channel.unary_unary(SERVICE + method, None, None)  # bytes stay bytes
        return self._methods[method]

    async def _raise_if_lost(self, error: grpc.aio.AioRpcError, method: str) -> None:
        """Raise `PluginLost` if the plugin has ended. A lost connection is noticed before the death that caused it, by
        more than a second on a busy machine. The plugin itself may answer UNAVAILABLE too, but then the connection
        remains.
        """
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            return
        connected = self._channel.get_state() is grpc.ChannelConnectivity.READY
        with suppress(TimeoutError):
            async with asyncio.timeout(_DOUBTED_DEATH_S if connected else _DEATH_S):
                await self._process.wait()
        if not self.alive:
            raise PluginLost(
                f"the shared kubernetes plugin ended during {method} ({_how(self._process)}); the next call starts one"
            ) from None

    async def _end(self, drain_seconds: float) -> None:
        exited = asyncio.create_task(self._process.wait())
        quiet = asyncio.create_task(self._quiet.wait())
        try:
            await asyncio.wait({exited, quiet}, timeout=drain_seconds, return_when=asyncio.FIRST_COMPLETED)
            with suppress(ProcessLookupError):
                self._process.terminate()
            await asyncio.wait({exited}, timeout=TERM_S)
            self.kill()
            await exited
            # a channel that is closed cancels its calls; they are to hear that the plugin has ended
            await asyncio.wait({quiet}, timeout=TERM_S)
        finally:
            quiet.cancel()
            await self._channel.close(None)
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _enter(self) -> None:
        self.running += 1
        self.calls += 1
        self._quiet.clear()

    def _leave(self) -> None:
        self.running -= 1
        self.used_at = time.monotonic()
        if not self.running:
            self._quiet.set()


class _Running:
    """Counts a call while it runs."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin

    def __enter__(self) -> None:
        self._plugin._enter()

    def __exit__(self, *_: object) -> None:
        self._plugin._leave()


async def _port(process: Process, seconds: float) -> int:
    """The port on the first line that it prints. Raises `PluginLost`, with the process ended, when the line is
    no port.
    """
    assert process.stdout is not None  # noqa: S101
    line = b""
    try:
        async with asyncio.timeout(seconds):
            line = await process.stdout.readline()
    except (TimeoutError, ValueError):
        pass
    text = line.strip()
    if text.isdigit() and 0 < int(text) < 1 << 16:
        return int(text)
    silent = process.returncode is None and not line
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()
    what = "printed nothing" if silent else f"printed no port but {len(line)} other bytes ({_how(process)})"
    raise PluginLost(f"the kubernetes plugin did not start: it {what}, waited {seconds:g} s at most")


def _how(process: Process) -> str:
    code = process.returncode or 0
    return f"signal {-code}" if code < 0 else f"exit status {code}"
