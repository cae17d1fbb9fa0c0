"""A stack whose operations run in the resident engine (`tools/engine`) instead of in a command line of their own.

The SDK prepares an operation as for a command line: it serves the program and makes the arguments. Only the call of the
command line is replaced. The resident engine runs the same operation and sends back the same events, over a connection
that ends with the operation. Closing the writing side of the connection cancels the operation.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pulumi.automation import CommandResult, EngineEvent, LocalWorkspace
from pulumi.automation.errors import create_command_error

from stacks.worker.listing import Listing
from stacks.worker.stack import ThinStack

__all__ = ["Resident", "ResidentStack", "connect"]

OPERATIONS = frozenset({"up", "preview", "refresh", "destroy"})
PROGRAMMED = frozenset({"up", "preview"})
_FAILED = 255
"""The exit code of a command line that reports an error."""
_OnEvent = Callable[[EngineEvent], None]


def connect(path: Path) -> socket.socket:
    """A connection to the Unix socket at `path`, which may be longer than the 107 bytes of such an address. Raises
    `OSError`.
    """
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{path.name}")
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(folder)
    return connection


class Resident:
    """The resident engine as a worker uses it: one operation at a time."""

    def __init__(self) -> None:
        self._connection: socket.socket | None = None
        self._lock = threading.Lock()

    def run(self, path: Path, request: dict[str, Any], on_event: _OnEvent) -> str:
        """Run an operation to its end and return its error, empty on success. `on_event` gets its events."""
        what = f"{request['operation']} of {request['stack']}"
        try:
            with self._connected(path) as connection:
                connection.sendall(json.dumps(request).encode() + b"\n")
                with connection.makefile("rb") as lines:
                    return _end_of_operation(lines, on_event)
        except (OSError, EOFError) as error:
            return f"the resident engine ended during {what} ({type(error).__name__}); the next one repairs it"

    def cancel(self) -> None:
        """Cancel the running operation, if there is one; `run` still returns its end."""
        with self._lock, suppress(OSError):
            if self._connection is not None:
                self._connection.shutdown(socket.SHUT_WR)

    @contextmanager
    def _connected(self, path: Path) -> Iterator[socket.socket]:
        with connect(path) as connection:
            with self._lock:
                self._connection = connection
            try:
                yield connection
            finally:
                with self._lock:
                    self._connection = None


def _end_of_operation(lines: Any, on_event: _OnEvent) -> str:
    """The error of the last line; each line before it is an event. Raises `EOFError` without a last line."""
    for line in lines:
        document = json.loads(line)
        if document.get("ended"):
            return str(document.get("error", ""))
        on_event(EngineEvent.from_json(document))
    raise EOFError


class ResidentStack(ThinStack):
    """As `ThinStack`, except that `resident` runs the operations, at the socket `path`. `secrets` returns what the
    request says of the stack's secrets. `listed` returns what the program would register, for a workspace that has no
    program.
    """

    def __init__(
        self,
        name: str,
        workspace: LocalWorkspace,
        *,
        project: str,
        exists: bool,
        resident: Resident,
        path: Path,
        secrets: Callable[[], dict[str, Any]],
        listed: Callable[[], Listing] | None = None,
    ) -> None:
        self._project = project
        self._resident, self._path = resident, path
        self._secrets, self._listed = secrets, listed
        self._on_event: _OnEvent = _ignore
        super().__init__(name, workspace, project=project, exists=exists)

    def _setup_event_log(self, command: str, on_event: _OnEvent, pulumi_version: str) -> Any:
        """Open no server for events: they come back over the connection."""
        self._on_event = on_event
        return "", None, None, None, None

    def _run_pulumi_cmd_sync(self, args: list[str], *rest: Any) -> Any:
        if args[0] not in OPERATIONS:
            return super()._run_pulumi_cmd_sync(args, *rest)
        programs = [arg.removeprefix("--client=") for arg in args if arg.startswith("--client=")]
        request = {
            "operation": args[0],
            "project": self._project,
            "stack": self.name,
            "folder": self.workspace.work_dir,
            "backend": self.workspace.env_vars["PULUMI_BACKEND_URL"],
            "program": programs[0] if programs else "",
            "list": self._listed() if self._listed and args[0] in PROGRAMMED else None,
            **self._secrets(),
        }
        if error := self._resident.run(self._path, request, self._on_event):
            raise create_command_error(CommandResult("", f"error: {error}", _FAILED))
        return CommandResult("", "", 0)


def _ignore(_: EngineEvent) -> None:
    """Take an event that nobody waits for."""
