"""Asks Ceph for its pools: `ceph df` in the toolbox pod of each Rook cluster (operators.md §2.9)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import TypeAlias

import structlog

from provider.errors import ClusterError
from provider.operators.inventory.storage.ceph import CephCluster, Pool, ceph_pools
from provider.protocols import Clock, Cluster
from provider.protocols.cluster import POD
from provider.protocols.pods import Channel, Command, Pods
from provider.repeats import Repeats

__all__ = ["CephDf", "CephScraper", "ceph_df_in"]

_log = structlog.get_logger(__name__)
_AGAIN_S = 60.0
_SETTLE_S = 0.5
_COMMAND_S = 15.0
_MAX_BYTES = 8 << 20
_TOOLBOX = "rook-ceph-tools"
CephDf: TypeAlias = Callable[[str], Awaitable[str]]
"""Namespace of a Rook cluster → what `ceph df --format json` prints there. Raises `ClusterError`."""


class CephScraper:
    """Reads the pools after each change of a volume, a class or a cluster, and every minute: data that tenants write
    changes no object. A cluster that cannot be asked keeps its last pools.

    `clusters` returns the clusters that are ready. `changed` is called with the pools of all of them.
    """

    def __init__(
        self,
        df: CephDf,
        *,
        clusters: Callable[[], Iterable[CephCluster]],
        clock: Clock,
        changed: Callable[[dict[CephCluster, Mapping[str, Pool]]], None],
    ) -> None:
        self._df = df
        self._clusters = clusters
        self._changed = changed
        self._news = asyncio.Event()
        self._clock = clock
        self._pools: dict[CephCluster, Mapping[str, Pool]] = {}
        self._repeats = Repeats(clock.monotonic)

    def ask(self) -> None:
        """Ask soon; many calls are one question."""
        self._news.set()

    async def run(self) -> None:
        """For ever."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_S):
                    await self._news.wait()
            await self._clock.sleep(_SETTLE_S)
            self._news.clear()
            await self._scrape()

    async def _scrape(self) -> None:
        clusters = list(self._clusters())
        found = {one: self._pools[one] for one in clusters if one in self._pools}
        for one in clusters:
            try:
                found[one] = ceph_pools(await self._df(one.namespace))
                self._repeats.ended(one.namespace)
            except (ClusterError, ValueError) as error:
                if self._repeats.is_news(one.namespace, str(error)):
                    _log.warning("inventory.ceph_unreadable", namespace=one.namespace, problem=str(error))
        if found != self._pools:
            self._pools = found
            self._changed(found)


def ceph_df_in(cluster: Cluster, pods: Pods, *, address: str) -> CephDf:
    """Runs `ceph df` in the toolbox pod of a Rook cluster, for at most fifteen seconds."""

    async def df(namespace: str) -> str:
        found = await cluster.list(POD, namespace=namespace, labels={"app": _TOOLBOX})
        running = [one for one in found if (one.get("status") or {}).get("phase") == "Running"]
        if not running:
            raise ClusterError(address, f"no pod of {_TOOLBOX} runs in {namespace}")
        name = running[0]["metadata"]["name"]
        command = Command(namespace, name, _TOOLBOX, ("ceph", "df", "--format", "json"))
        try:
            async with asyncio.timeout(_COMMAND_S):
                return await _output(pods, command, address=address)
        except TimeoutError as error:
            raise ClusterError(address, f"{name}: ceph df took more than {_COMMAND_S:g} s") from error

    return df


async def _output(pods: Pods, command: Command, *, address: str) -> str:
    """What the command writes. Raises `ClusterError` with its stderr if it fails, and for more than 8 MiB."""
    written: dict[Channel, bytes] = {}
    async with pods.execute(command) as execution:
        async for channel, data in execution:
            written[channel] = written.get(channel, b"") + data
            if len(written[channel]) > _MAX_BYTES:
                raise ClusterError(address, f"{command.pod}: ceph df wrote more than {_MAX_BYTES} bytes")
    result = written.get(Channel.RESULT, b"").decode(errors="replace")
    if result and not _succeeded(result):
        problem = written.get(Channel.STDERR, b"").decode(errors="replace").strip() or result
        raise ClusterError(address, f"{command.pod}: ceph df failed: {problem[:200]}")
    return written.get(Channel.STDOUT, b"").decode(errors="replace")


def _succeeded(result: str) -> bool:
    try:
        document = json.loads(result)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("status") == "Success"
