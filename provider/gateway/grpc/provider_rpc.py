"""`ProviderRPC` beside the screening: the status of the provider, once and as a stream, for anybody (gateway.md §5)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from provider.gateway.config import GatewayConfig
from provider.gateway.grpc.places import StreamPlaces
from provider.gateway.grpc.relay import relayed_peer
from provider.gateway.grpc.status_message import status_message
from provider.gateway.provider_status import ProviderStatus
from provider.protocols import Clock

__all__ = ["ProviderRpc"]

_PAUSE_S = 5.0
"""The Go provider sends the status at each round of its inventory, which takes as long."""


class ProviderRpc:
    """`places` limits the streams of each peer. `status` should be cached: anybody may call."""

    def __init__(
        self,
        status: Callable[[], Awaitable[ProviderStatus]],
        config: GatewayConfig,
        *,
        clock: Clock,
        places: StreamPlaces,
    ) -> None:
        self._status = status
        self._config = config
        self._clock = clock
        self._places = places

    async def get_status(self, request: Any, context: Any) -> Any:
        return await self._message()

    async def stream_status(self, request: Any, context: Any) -> AsyncGenerator[Any, None]:
        """The status at once, then every five seconds."""
        with self._places.take(relayed_peer(context.peer())):
            while True:
                yield await self._message()
                await self._clock.sleep(_PAUSE_S)

    async def _message(self) -> Any:
        config = self._config
        return status_message(
            await self._status(),
            public_hostname=config.public_hostname,
            reclamation_window_ns=config.reclamation_window_ns,
            now=self._clock.now(),
        )
