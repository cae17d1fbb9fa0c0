"""The methods that command lines and plugins call on the broker's port: bytes in, bytes out.

The debug protocol names no configuration, but each provider of a run has a connection of its own and sends Handshake,
Attach, CheckConfig and Configure on it, in this order. So a connection is bound to its last configuration, and a call
about resources goes to the plugin of that configuration.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, NoReturn, TypeVar, cast

import grpc
import grpc.aio

from stacks.broker.errors import AllBusy, BrokerError, PluginLost
from stacks.broker.fields import configuration, failures, stack_of
from stacks.broker.fleet import Fleet, Slot
from stacks.broker.plugin import SERVICE, Metadata, Plugin
from stacks.common.peers import Owners

__all__ = ["Service"]

Context = grpc.aio.ServicerContext[bytes, bytes]
_T = TypeVar("_T")

_CONNECTIONS = 4096
"""The most bindings that are remembered. Nothing reports the end of a connection, and a new one at the same port begins
with Attach.
"""
_WRITES = frozenset({"Create", "Update", "Delete"})
_OF_NO_CONFIGURATION = frozenset({"CheckConfig", "DiffConfig", "GetSchema", "GetMapping", "GetMappings"})
_NOT_OFFERED = frozenset({"Handshake", "Parameterize"})
"""A handshake would bind the plugin to one engine, and is optional; a parameter would be visible to every stack."""
_SWALLOWED = frozenset({"Attach", "Cancel"})
_LOST_SIGHT = (
    "unreachable",
    "connection refused",
    "connection reset",
    "no route to host",
    "i/o timeout",
    "no such host",
    "x509:",
    "Unauthorized",
    "no matches for kind",
    "the server could not find the requested resource",
)
"""Texts of errors that show that the plugin's knowledge of the API server may be out of date."""
_UNKNOWN_KIND = b"did not contain a schema for"
"""The text of Check about a kind that was added after the plugin had read the schema."""
_ENGINE = "/pulumirpc.Engine/"
_ANSWERS = {_ENGINE + "Log": b"", _ENGINE + "GetRootResource": b"", _ENGINE + "SetRootResource": b""}
_HEALTH = {"/grpc.health.v1.Health/Check": b"\x08\x01"}


class Service(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in its stubs only
    """Passes every call of one server to the fleet. `calls` counts methods, `strangers` the calls of refused
    connections.
    """

    def __init__(self, fleet: Fleet, owners: Owners, *, patience_seconds: float) -> None:
        self._patience = patience_seconds
        self._fleet = fleet
        self._owners = owners
        self._bound: OrderedDict[str, bytes] = OrderedDict()
        self._info = b""
        self._lingering: dict[str, set[asyncio.Task[bytes]]] = {}
        self.calls: Counter[str] = Counter()
        self.strangers = 0

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """gRPC's hook: the handler of a method; None answers UNIMPLEMENTED."""
        path = handler_call_details.method
        if (fixed := (_ANSWERS | _HEALTH).get(path)) is not None:
            return grpc.unary_unary_rpc_method_handler(self._guarded(lambda *_: _ready(fixed)))
        if not path.startswith(SERVICE):
            return None
        method = path.removeprefix(SERVICE)
        if method == "List":
            return grpc.unary_stream_rpc_method_handler(self._list)
        return grpc.unary_unary_rpc_method_handler(self._guarded(lambda *call: self._answer(method, *call)))

    @property
    def lingering(self) -> list[str]:
        """Stacks with calls that still run and that no command line waits for."""
        return sorted(self._lingering)

    async def settled(self, stack: str, seconds: float) -> bool:
        """Wait until no call runs for `stack` that its command line did not live to see; False if that takes longer."""
        if left := self._lingering.get(stack):
            _, pending = await asyncio.wait(set(left), timeout=seconds)
            return not pending
        return True

    def _guarded(self, answer: Callable[[bytes, Context], Awaitable[bytes]]) -> Callable[..., Awaitable[bytes]]:
        """Refuse strangers, and turn an error of the broker into a status with a text."""

        async def guarded(request: bytes, context: Context) -> bytes:
            await self._refuse_strangers(context)
            try:
                return await answer(request, context)
            except grpc.aio.AioRpcError as error:
                await _pass_on(error, context)
            except AllBusy as error:
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
            except BrokerError as error:
                await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))

        return guarded

    async def _answer(self, method: str, request: bytes, context: Context) -> bytes:
        self.calls[method] += 1
        peer = context.peer()
        if method in _NOT_OFFERED:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{method} is not offered by a shared plugin")
        if method in _SWALLOWED:
            if method == "Attach":
                self._bound.pop(peer, None)
            return b""
        if method == "GetPluginInfo":
            self._info = self._info or await (await self._fleet.anyone()).call(method, request)
            return self._info
        if self._lingering:
            await self._wait_for_the_dead(stack_of(request))
        if method == "Configure":
            return await self._configure(peer, request, context)
        if method in _OF_NO_CONFIGURATION:
            return await (await self._fleet.anyone()).call(method, request, metadata=_metadata(context))
        return await self._resource(method, request, context)

    async def _configure(self, peer: str, request: bytes, context: Context) -> bytes:
        try:
            key = configuration(request)
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"Configure is no message: {error}")
        response = await _to_its_end(self._fleet.configure(key, request))
        self._bound[peer] = key
        self._bound.move_to_end(peer)
        while len(self._bound) > _CONNECTIONS:
            self._bound.popitem(last=False)
        return response

    async def _resource(self, method: str, request: bytes, context: Context) -> bytes:
        slot = await self._slot(context)
        plugin = await self._plugin(slot)
        metadata = _metadata(context)
        try:
            if method in _WRITES:
                return await self._write(plugin, method, request, metadata)
            response = await plugin.call(method, request, metadata=metadata, seconds=context.time_remaining())
        except PluginLost:  # a question can be asked again
            if method in _WRITES:
                raise
            plugin = await self._plugin(slot)
            response = await plugin.call(method, request, metadata=metadata, seconds=context.time_remaining())
        except grpc.aio.AioRpcError as error:
            plugin.doubt = next((text for text in _LOST_SIGHT if text in (error.details() or "")), plugin.doubt)
            raise
        if method == "Check" and _UNKNOWN_KIND in response and _UNKNOWN_KIND in failures(response):
            return await self._check_again(slot, plugin, request, metadata)
        return response

    async def _check_again(self, slot: Slot, plugin: Plugin, request: bytes, metadata: Metadata) -> bytes:
        """The answer of a fresh plugin, since the kind may be newer than the plugin's schema."""
        plugin.doubt = "unknown kind"
        if self._fleet.is_doubtful(plugin):
            plugin = await _to_its_end(self._fleet.renew(slot, plugin))
        return await plugin.call("Check", request, metadata=metadata)

    async def _write(self, plugin: Plugin, method: str, request: bytes, metadata: Metadata) -> bytes:
        """Never given up half-way: if the command line dies, the next call about its stack waits for the outcome."""
        running = asyncio.create_task(plugin.call(method, request, metadata=metadata))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            self._linger(stack_of(request), running)
            raise

    def _linger(self, stack: str, running: asyncio.Task[bytes]) -> None:
        def done(task: asyncio.Task[bytes]) -> None:
            _ = task.cancelled() or task.exception()
            self._lingering[stack].discard(task)
            if not self._lingering[stack]:
                del self._lingering[stack]

        self._lingering.setdefault(stack, set()).add(running)
        running.add_done_callback(done)

    async def _wait_for_the_dead(self, stack: str) -> None:
        if not await self.settled(stack, self._patience):
            raise BrokerError(
                f"an earlier run of {stack} was killed and calls that it began still run; try again later"
            )

    async def _slot(self, context: Context) -> Slot:
        key = self._bound.get(context.peer())
        slot = self._fleet.slot(key) if key else None
        if slot is None:
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                "this connection has configured no provider at this broker; run the operation again",
            )
        return slot

    async def _plugin(self, slot: Slot) -> Plugin:
        ready = self._fleet.ready(slot)
        return ready if ready is not None else await _to_its_end(self._fleet.plugin(slot))

    async def _list(self, request: bytes, context: Context) -> AsyncIterator[bytes]:
        await self._refuse_strangers(context)
        self.calls["List"] += 1
        slot = await self._slot(context)
        try:
            plugin = await self._plugin(slot)
            async for message in plugin.stream("List", request, metadata=_metadata(context)):
                yield message
        except grpc.aio.AioRpcError as error:
            await _pass_on(error, context)
        except BrokerError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))

    async def _refuse_strangers(self, context: Context) -> None:
        if not self._owners.is_ours(context.peer()):
            self.strangers += 1
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "this broker serves only processes of its own user")


async def _ready(answer: bytes) -> bytes:
    return answer


async def _to_its_end(work: Coroutine[Any, Any, _T]) -> _T:
    """Continue with work that others wait for too, even if this caller ends."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(task)


def _metadata(context: Context) -> Metadata:
    """The caller's metadata without the entries that belong to its connection."""
    sent = cast(Metadata, context.invocation_metadata() or ())
    return tuple((key, value) for key, value in sent if not key.startswith(("grpc-", ":")) and key != "user-agent")


async def _pass_on(error: grpc.aio.AioRpcError, context: Context) -> NoReturn:
    """The plugin's own status, with the details that describe a half-made resource."""
    trailing = tuple((key, value) for key, value in cast(Metadata, error.trailing_metadata() or ()))
    await context.abort(error.code(), error.details() or "", trailing)
