"""The servers that Pulumi's SDK opens in a worker, the language server and the receiver of events: only this user's
processes are answered.

A worker hides its descriptors, so the guard of `stacks.common.listeners` cannot see these connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from pulumi.automation import _stack as sdk

from stacks.common.peers import Owners

__all__ = ["fence_sdk_servers"]

_KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")


def fence_sdk_servers() -> None:
    """Have the SDK open its servers with the check of peers. `grpc` is a private name there: the SDK is pinned."""
    vars(sdk)["grpc"] = _Grpc()


class _Grpc:
    """The module `grpc` with another `server`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(grpc, name)

    def server(self, executor: ThreadPoolExecutor, *, options: Any = None) -> grpc.Server:
        check = _PeerCheck()
        server = grpc.server(executor, interceptors=[check], options=options)
        add = server.add_insecure_port

        def add_insecure_port(address: str) -> int:
            port = add(address)
            check.owners = Owners(port)
            return port

        server.add_insecure_port = add_insecure_port  # type: ignore[method-assign]
        return server


class _PeerCheck(grpc.ServerInterceptor):  # type: ignore[type-arg]  # generic in its stubs only
    """Refuses every call of a connection from another user."""

    owners: Owners | None = None

    def intercept_service(self, continuation: Callable[[Any], Any], handler_call_details: Any) -> Any:
        handler = continuation(handler_call_details)
        kind = next((name for name in _KINDS if handler is not None and getattr(handler, name) is not None), "")
        if not kind:
            return handler
        return handler._replace(**{kind: self._guarded(getattr(handler, kind), streams=kind.endswith("stream"))})

    def _guarded(self, answer: Callable[..., Any], *, streams: bool) -> Callable[..., Any]:
        def once(request: Any, context: grpc.ServicerContext) -> Any:
            self._refuse_stranger(context)
            return answer(request, context)

        def stream(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            self._refuse_stranger(context)
            yield from answer(request, context)

        return stream if streams else once

    def _refuse_stranger(self, context: grpc.ServicerContext) -> None:
        if self.owners is None or not self.owners.is_ours(context.peer()):
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "only processes of the provider's own user are answered")
