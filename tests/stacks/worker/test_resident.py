"""How a worker speaks with the resident engine: one request, its events, its end; over a connection that may break."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stacks.common.causes import cause_of
from stacks.common.results import FailureCause
from stacks.worker.resident import Resident

REQUEST = {"operation": "up", "stack": "lease", "program": "127.0.0.1:1"}
EVENT = {"sequence": 1, "timestamp": 2, "cancelEvent": {}}


@contextmanager
def served(path: Path, answer: Callable[[socket.socket, Any], None]) -> Iterator[list[Any]]:
    """A listener at `path`, in a folder whose path is longer than the address of a socket may be."""
    asked: list[Any] = []
    path.parent.mkdir(parents=True, exist_ok=True)
    short = Path("/tmp") / f"lessor-{threading.get_native_id()}"
    short.symlink_to(path.parent)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(short / path.name))
    listener.listen()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            asked.append(json.loads(lines.readline()))
            answer(connection, lines)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield asked
    finally:
        thread.join()
        listener.close()
        short.unlink()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ("a folder of a long name " * 6) / "socket"


def say(*documents: object) -> Callable[[socket.socket, Any], None]:
    return lambda connection, _: connection.sendall(b"".join(json.dumps(each).encode() + b"\n" for each in documents))


def test_the_events_come_in_order_and_the_last_line_ends_the_operation(path: Path) -> None:
    seen: list[int] = []
    with served(path, say(EVENT, {**EVENT, "sequence": 2}, {"ended": True})) as asked:
        assert Resident().run(path, REQUEST, lambda event: seen.append(event.sequence)) == ""
    assert asked == [REQUEST]
    assert seen == [1, 2]


def test_the_error_of_the_last_line_is_returned(path: Path) -> None:
    with served(path, say({"ended": True, "error": "the stack is currently locked by 1 lock(s)"})):
        error = Resident().run(path, REQUEST, lambda _: None)
    assert cause_of(error) is FailureCause.LOCKED


def test_an_end_without_a_last_line_is_a_failure_of_the_engine(path: Path) -> None:
    with served(path, say(EVENT)):
        error = Resident().run(path, REQUEST, lambda _: None)
    assert "up of lease" in error
    assert cause_of(error) is FailureCause.ENGINE


def test_no_listener_is_a_failure_of_the_engine(path: Path) -> None:
    assert cause_of(Resident().run(path, REQUEST, lambda _: None)) is FailureCause.ENGINE


def test_a_cancel_closes_the_writing_side_and_the_end_is_still_heard(path: Path) -> None:
    resident = Resident()

    def cancelled(connection: socket.socket, lines: Any) -> None:
        say(EVENT)(connection, lines)
        assert lines.readline() == b"", "nothing more is written"
        say({"ended": True, "error": "cancelled"})(connection, lines)

    with served(path, cancelled):
        assert resident.run(path, REQUEST, lambda _: resident.cancel()) == "cancelled"
    resident.cancel()
