"""Logs of pods and commands in them, through the API server: the real `Pods` (docs/architecture.md §3)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote, urlencode

import aiohttp

from provider.errors import ClusterError
from provider.kube.bodies import refusal
from provider.kube.server import ApiServer, Request
from provider.protocols.pods import Channel, Command, LogRequest

__all__ = ["KubePods"]

_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _RESIZE, _CLOSE = 0, 4, 255
_REASON_BYTES = 4096


class _Execution:
    """A command on a WebSocket of the API server: the first byte of a message is its channel."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, address: str) -> None:
        self._socket = socket
        self._address = address

    async def __aiter__(self) -> AsyncIterator[tuple[Channel, bytes]]:
        async for message in self._socket:
            # the API server begins with an empty message on each channel
            if message.type is aiohttp.WSMsgType.BINARY and len(message.data) > 1 and message.data[0] in tuple(Channel):
                yield Channel(message.data[0]), message.data[1:]
        if (problem := self._socket.exception()) is not None:
            raise ClusterError(self._address, f"the command's connection broke: {type(problem).__name__}")

    async def write(self, data: bytes) -> None:
        await self._send(_STDIN, data)

    async def end_input(self) -> None:
        """Version 4 of the protocol has no end of stdin."""
        if self._socket.protocol == _PROTOCOLS[0]:
            await self._send(_CLOSE, bytes((_STDIN,)))

    async def resize(self, width: int, height: int) -> None:
        await self._send(_RESIZE, json.dumps({"Width": width, "Height": height}).encode())

    async def _send(self, channel: int, data: bytes) -> None:
        try:
            await self._socket.send_bytes(bytes((channel,)) + data)
        except ConnectionError as error:
            raise ClusterError(self._address, "the command's connection is closed") from error


class KubePods:
    """The streams of one API server."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    @asynccontextmanager
    async def log(self, request: LogRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        path = _pod(request.namespace, request.pod, "log")
        async with self._server.request(Request("GET", path, _log_parameters(request), stream=True)) as response:
            if response.status >= 400:
                raise _refused(self._server.address, response.status, await response.content.read(_REASON_BYTES))
            yield response.content.iter_any()

    @asynccontextmanager
    async def execute(self, command: Command) -> AsyncIterator[_Execution]:
        path = _pod(command.namespace, command.pod, "exec")
        flags = {"stdin": command.stdin, "stdout": True, "stderr": not command.tty, "tty": command.tty}
        parameters = [("container", command.container), *((name, "true") for name, on in flags.items() if on)]
        parameters += [("command", argument) for argument in command.arguments]
        request = Request("GET", f"{path}?{urlencode(parameters)}")
        async with self._server.websocket(request, _PROTOCOLS) as socket:
            yield _Execution(socket, self._server.address)


def _pod(namespace: str, pod: str, part: str) -> str:
    return f"api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}/{part}"


def _log_parameters(request: LogRequest) -> dict[str, str]:
    given = {
        "container": request.container,
        "follow": "true" if request.follow else "",
        "tailLines": "" if request.tail is None else str(request.tail),
        "sinceTime": request.since,
        "previous": "true" if request.previous else "",
        "timestamps": "true" if request.timestamps else "",
    }
    return {name: value for name, value in given.items() if value}


def _refused(address: str, status: int, content: bytes) -> ClusterError:
    return ClusterError(address, f"{refusal(content)} (HTTP {status})", status=status)
