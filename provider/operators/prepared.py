"""HTTP of the operators for IP addresses and hostnames: bodies that are made ahead and served from memory
(operators.md §1.4).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

from aiohttp import web

from provider.protocols import Clock

__all__ = ["Barrier", "Prepared", "PreparedBodies", "json_body", "operator_app"]

_MOST_BYTES = 8 * 1024 * 1024
_DRAIN_S = 30.0
_CACHE = {"Cache-Control": "no-cache, max-age=0"}


def json_body(value: object) -> bytes:
    """A JSON document as Go's encoder writes it: without spaces, with a newline at the end."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


@dataclass(slots=True)
class Prepared:
    """One path. `make` returns the body; it is called when `dirty`. A fresh path is empty and clean."""

    make: Callable[[], bytes]
    clock: Clock
    dirty: bool = False
    body: bytes = b""
    prepared_at: float = 0.0

    def set(self, body: bytes) -> None:
        self.body, self.prepared_at, self.dirty = body[:_MOST_BYTES], self.clock.now(), False

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            return web.Response(status=405)
        if not self.body:
            return web.Response(status=204, headers=_CACHE)
        headers = {**_CACHE, "Last-Modified": formatdate(self.prepared_at, usegmt=True)}
        return web.Response(body=self.body, headers=headers)


@dataclass(slots=True)
class PreparedBodies:
    """Every prepared path of an operator."""

    clock: Clock
    paths: dict[str, Prepared] = field(default_factory=dict)

    def add(self, path: str, make: Callable[[], bytes] | None) -> Prepared:
        """Register a path. Raises ValueError for a path that exists, and for no function."""
        if make is None:
            raise ValueError("passed nil value for prepare function")
        if path in self.paths:
            raise ValueError(f"prepared result exists for path: {path}")
        self.paths[path] = Prepared(make, self.clock)
        return self.paths[path]

    def prepare_all(self) -> None:
        """Make the bodies of dirty paths. Stops at the first error, and raises it."""
        for prepared in self.paths.values():
            if prepared.dirty:
                prepared.set(prepared.make())

    def mark(self, *paths: str) -> None:
        for path in paths:
            self.paths[path].dirty = True


class Barrier:
    """Answers 503 while the operator does not observe the cluster."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open = False
        self._inside = 0

    @property
    def is_open(self) -> bool:
        return self._open

    def set(self, is_open: bool) -> None:
        """Let requests in, or not. Those that are inside go on."""
        self._open = is_open

    async def drain(self) -> None:
        """Return when no request is inside, after 30 seconds at the latest."""
        until = self._clock.monotonic() + _DRAIN_S
        while self._inside and self._clock.monotonic() < until:
            await self._clock.sleep(0.1)

    async def guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if not self._open:
            return web.Response(status=503)
        self._inside += 1
        try:
            return await handler(request)
        finally:
            self._inside -= 1


def operator_app(
    bodies: PreparedBodies, version: Mapping[str, Any], *, barrier: Barrier | None = None
) -> web.Application:
    """`/health`, `/version` and the prepared paths."""
    app = web.Application(middlewares=[_guarding(barrier)] if barrier is not None else [])

    async def health(_: web.Request) -> web.StreamResponse:
        return web.Response(text="OK")

    async def show_version(_: web.Request) -> web.StreamResponse:
        return web.Response(body=json_body(dict(version)))

    app.router.add_get("/health", health)
    app.router.add_get("/version", show_version)
    for path, prepared in bodies.paths.items():
        app.router.add_route("*", path, prepared.answer)
    return app


def _guarding(barrier: Barrier) -> Any:
    @web.middleware
    async def guard(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        return await barrier.guard(request, handler)

    return guard
