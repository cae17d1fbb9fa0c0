"""What runs in pods: their logs, and commands in their containers, behind the port of the API server's streams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

__all__ = ["Channel", "Command", "Execution", "LogRequest", "Pods"]


class Channel(IntEnum):
    """The channels of a command that an execution reports; the numbers are those of the remote command protocol."""

    STDOUT = 1
    STDERR = 2
    RESULT = 3


@dataclass(frozen=True, slots=True)
class LogRequest:
    """`tail`: the number of last lines, None for all. `since`: an RFC 3339 time. `previous`: the log of the container
    before the last restart. With `timestamps` each line begins with the time at which it was written, and a space.
    """

    namespace: str
    pod: str
    container: str
    follow: bool = False
    tail: int | None = None
    since: str = ""
    previous: bool = False
    timestamps: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A command and where it runs. With `tty` its stderr is part of its stdout."""

    namespace: str
    pod: str
    container: str
    arguments: tuple[str, ...]
    tty: bool = False
    stdin: bool = False


class Execution(Protocol):
    """A command that runs. Iterating yields what it writes, and at the end its result, a Kubernetes Status as JSON."""

    def __aiter__(self) -> AsyncIterator[tuple[Channel, bytes]]: ...

    async def write(self, data: bytes) -> None:
        """Send `data` to the command's stdin; returns when the API server can take more."""
        ...

    async def end_input(self) -> None:
        """Close the command's stdin, where the API server's protocol can say so."""
        ...

    async def resize(self, width: int, height: int) -> None: ...


class Pods(Protocol):
    """Streams of pods. Both raise `ClusterError`, also while the stream is read; leaving the context ends the stream.

    Nothing is read ahead: a reader that waits makes the API server wait.
    """

    def log(self, request: LogRequest) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The bytes of a log in pieces of any size. The response of a quiet container may take any time."""
        ...

    def execute(self, command: Command) -> AbstractAsyncContextManager[Execution]: ...
