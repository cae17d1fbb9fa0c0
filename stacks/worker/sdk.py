"""Parts of Pulumi's SDK that cost a worker time and give it nothing, switched off. They are private names: the SDK is
pinned.

Each `log.debug` is a blocking call to the engine, about 48 an update (toolchain.md §3), and the stack trace of every
registration is stored: 56 of the 146 KB of a thirteen-object lease's state. The API server's answer for an object is
read into Outputs that no lease program uses: a third of its time, and the next object waits for it. A URN is made of
five Outputs for each object, for runs without an engine that supplies it: a tenth of its time. A program that the
resident engine calls has nobody who takes its messages: its error is the result of its run, and is not printed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pulumi import Output, log
from pulumi.runtime import resource, rpc
from pulumi.runtime.proto import source_pb2

__all__ = ["quiet_log", "quiet_sdk"]


def quiet_sdk() -> None:
    """Switch them off in this process."""
    quiet_log()
    resource._get_stack_trace = _no_trace
    resource.create_urn = _no_urn
    rpc.resolve_outputs = _answer_unread


def quiet_log() -> None:
    """Send no message for debugging, and print no error that no engine takes."""
    log.debug = _nothing
    log.error = _to_an_engine(log.error)


def _nothing(*_: object, **__: object) -> None:
    return None


def _to_an_engine(send: Callable[..., None]) -> Callable[..., None]:
    def error(*args: Any, **named: Any) -> None:
        if log.get_engine() is not None:  # type: ignore[no-untyped-call]
            send(*args, **named)

    return error


def _no_trace() -> source_pb2.StackTrace:
    return source_pb2.StackTrace()


def _no_urn(*_: object, **__: object) -> Output[str]:
    return Output.from_input("")


def _answer_unread(*args: Any, **_: Any) -> None:
    """Every Output exists and holds nothing; URN and id, by which objects depend on each other, come another way."""
    resolvers, custom = args[4:6]
    rpc.resolve_properties(resolvers, {}, {}, custom)
