"""`python -m devnet.node.gpus COUNT`: a device plugin that plays the node's GPUs (`nvidia.com/gpu`).

It serves the kubelet's device plugin API v1beta1 beside the kubelet's own socket for that. A
container that gets cards has `NVIDIA_VISIBLE_DEVICES` and a device `/dev/nvidia<N>` for each, which is the null device.
The file `UNHEALTHY` lists the names of the unhealthy cards, one name a line.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NoReturn

import grpc
import grpc.aio

from devnet.node.wire import encode, values

__all__ = ["GPU_RESOURCE", "UNHEALTHY", "card_name"]

GPU_RESOURCE = "nvidia.com/gpu"
UNHEALTHY = Path("/run/unhealthy-gpus")
_PLUGINS = Path("/var/lib/kubelet/device-plugins")
"""Fixed in the kubelet; the enclosure has a folder of its own there."""
_OWN_SOCKET = "lessor-gpus.sock"
_PAUSE_S = 0.2


def card_name(number: int) -> str:
    """The name of a card, as `NVIDIA_VISIBLE_DEVICES` has it; the first has number 0."""
    return f"GPU-{number}"


class _Plugin:
    def __init__(self, count: int) -> None:
        self._cards = [card_name(number) for number in range(count)]

    async def serve(self) -> NoReturn:
        """Serve and register, and again whenever a kubelet has started: it removes all sockets but its own."""
        while True:
            kubelet = await self._kubelet()
            server = self._server()
            await server.start()
            await self._register()
            while await self._kubelet() == kubelet:
                await asyncio.sleep(_PAUSE_S)
            await server.stop(0)

    async def _kubelet(self) -> int:
        """The inode of the kubelet's socket, once it is there."""
        while True:
            try:
                return (_PLUGINS / "kubelet.sock").stat().st_ino
            except FileNotFoundError:
                await asyncio.sleep(_PAUSE_S)

    def _server(self) -> grpc.aio.Server:
        (_PLUGINS / _OWN_SOCKET).unlink(missing_ok=True)
        server = grpc.aio.server()
        methods = {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(_options),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(self._list),
            "Allocate": grpc.unary_unary_rpc_method_handler(self._allocate),
        }
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", methods)])
        server.add_insecure_port(f"unix://{_PLUGINS / _OWN_SOCKET}")
        return server

    async def _register(self) -> None:
        async with grpc.aio.insecure_channel(f"unix://{_PLUGINS / 'kubelet.sock'}") as channel:
            request = encode((1, "v1beta1"), (2, _OWN_SOCKET), (3, GPU_RESOURCE))
            register = channel.unary_unary("/v1beta1.Registration/Register", bytes, bytes)
            await register(request, wait_for_ready=True)

    async def _list(self, request: bytes, context: object) -> AsyncIterator[bytes]:
        """Every card with its health, now and after each change."""
        said = None
        while True:
            ill = UNHEALTHY.read_text().split() if UNHEALTHY.exists() else []
            cards = [(1, encode((1, card), (2, "Unhealthy" if card in ill else "Healthy"))) for card in self._cards]
            if said != (said := encode(*cards)):
                yield said
            await asyncio.sleep(_PAUSE_S)

    async def _allocate(self, request: bytes, context: object) -> bytes:
        wanted = [[name.decode() for name in values(each, 1)] for each in values(request, 1)]
        return encode(*((1, self._allocation(names)) for names in wanted))

    def _allocation(self, names: Sequence[str]) -> bytes:
        """Environment and devices of one container."""
        devices = [f"/dev/nvidia{self._cards.index(name)}" for name in sorted(names)]
        visible = encode((1, "NVIDIA_VISIBLE_DEVICES"), (2, ",".join(sorted(names))))
        specs = (encode((1, device), (2, "/dev/null"), (3, "rw")) for device in devices)
        return encode((1, visible), *((3, spec) for spec in specs))


async def _options(request: bytes, context: object) -> bytes:
    """No option is set."""
    return b""


if __name__ == "__main__":
    asyncio.run(_Plugin(int(sys.argv[1])).serve())
