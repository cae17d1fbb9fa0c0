"""Between a command line and the worker that listens to its engine events: sees each event first, then hands it on.

No code of the product is touched: the engine is given a `pulumi` that is a shell script, which replaces the address
behind `--event-log` by the tap's and then becomes the real command line, under its own name and process id.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.empty_pb2 import Empty
from pulumi.runtime.proto import events_pb2, events_pb2_grpc

__all__ = ["EngineEvent", "Tap"]

EngineEvent = dict[str, Any]
"""As the command line writes it: `sequence`, `timestamp` and one event under its name."""

_SCRIPT = """#!/bin/sh
for argument do
  shift
  case $argument in
    tcp://127.0.0.1:*) echo $$ "${{argument#tcp://}}" > {told}; argument=tcp://127.0.0.1:{port} ;;
  esac
  set -- "$@" "$argument"
done
exec {pulumi} "$@"
"""


class Tap(events_pb2_grpc.EventsServicer):
    """For one command line at a time. `on_event` is called in a thread of its own with the command line's process id,
    before the worker hears of the event.
    """

    def __init__(self, folder: Path, pulumi: Path) -> None:
        self.on_event: Callable[[int, EngineEvent], None] = lambda _pid, _event: None
        self.pulumi = folder / "pulumi"
        self._told = folder / "listener"
        self._server = grpc.server(ThreadPoolExecutor(max_workers=4))
        events_pb2_grpc.add_EventsServicer_to_server(self, self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()
        names = {"told": shlex.quote(str(self._told)), "pulumi": shlex.quote(str(pulumi))}
        self.pulumi.write_text(_SCRIPT.format(port=port, **names))
        self.pulumi.chmod(0o755)

    def close(self) -> None:
        self._server.stop(grace=0)

    def StreamEvents(self, request_iterator: Iterator[events_pb2.EventRequest], context: Any) -> Empty:
        pid, address = self._told.read_text().split()
        with grpc.insecure_channel(address) as channel:
            listener = events_pb2_grpc.EventsStub(channel)
            with suppress(grpc.RpcError):  # either side may be killed at any moment
                listener.StreamEvents(self._seen(int(pid), request_iterator))
        return Empty()

    def _seen(self, pid: int, requests: Iterator[events_pb2.EventRequest]) -> Iterator[events_pb2.EventRequest]:
        with suppress(grpc.RpcError):
            for request in requests:
                self.on_event(pid, json.loads(request.event))
                yield request
