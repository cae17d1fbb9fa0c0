"""The broker's server on a free port of loopback, with its plugins. Runs in any event loop of a main thread."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc.aio

from stacks.broker.fleet import Fleet
from stacks.broker.plugin import MESSAGE_LIMIT
from stacks.broker.service import Service
from stacks.broker.settings import BrokerSettings, BrokerStatus
from stacks.common.peers import Owners
from stacks.common.processes import memory_bytes

__all__ = ["Serving", "serving"]

_OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    ("grpc.max_send_message_length", MESSAGE_LIMIT),
    ("grpc.so_reuseport", 0),  # or another process could share the port
)


@dataclass(frozen=True)
class Serving:
    """A broker that serves."""

    port: int
    fleet: Fleet
    service: Service

    def status(self) -> BrokerStatus:
        return BrokerStatus(
            pid=os.getpid(),
            port=self.port,
            memory_bytes=memory_bytes(os.getpid()),
            plugins=[plugin.status() for plugin in self.fleet.plugins()],
            started=self.fleet.started,
            retired=self.fleet.retired,
            lost=self.fleet.lost,
            refused_strangers=self.service.strangers,
            methods=dict(self.service.calls),
            lingering=self.service.lingering,
        )


@asynccontextmanager
async def serving(settings: BrokerSettings) -> AsyncIterator[Serving]:
    """Serve until the end of the block; then the plugins are ended, with or without running calls, and their files
    removed.
    """
    shutil.rmtree(settings.scratch, ignore_errors=True)  # of a broker that was killed
    server = grpc.aio.server(options=_OPTIONS)
    port = server.add_insecure_port("127.0.0.1:0")
    fleet, owners = Fleet(settings, engine=f"127.0.0.1:{port}"), Owners(port)
    service = Service(fleet, owners, patience_seconds=settings.drain_seconds)
    server.add_generic_rpc_handlers((service,))
    await server.start()
    watching = asyncio.create_task(fleet.watch())
    try:
        yield Serving(port, fleet, service)
    finally:
        watching.cancel()
        await fleet.close()
        await server.stop(0)
        owners.close()
