"""Which plugin serves which configuration, and when a plugin is replaced.

A plugin can have one configuration, so there is one plugin for each, prepared when a stack first needs it. A plugin
keeps nothing between calls except its configuration and caches of it, so that any call may go to its successor.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

import grpc.aio

from stacks.broker.errors import AllBusy, BrokerError, PluginLost
from stacks.broker.plugin import Plugin
from stacks.broker.settings import BrokerSettings
from stacks.common.processes import memory_bytes

__all__ = ["Fleet", "Slot"]

_REMEMBERED = 64
"""The most configurations that are remembered; the next run configures a forgotten one again."""


@dataclass
class Slot:
    """One configuration: the request that makes a plugin have it, the plugin's answer, and the plugin that has
    it now.
    """

    request: bytes = field(repr=False)
    response: bytes = field(default=b"", repr=False)
    plugin: Plugin | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    used_at: float = field(default_factory=time.monotonic)


class Fleet:
    """All plugins of one broker. `engine` is the address that they log to."""

    def __init__(self, settings: BrokerSettings, *, engine: str) -> None:
        self._settings = settings
        self._engine = engine
        self._slots: dict[bytes, Slot] = {}
        self._blank: Plugin | None = None
        self._warming: list[Plugin] = []
        self._starting = asyncio.Lock()
        self._numbers = count(1)
        self._leaving: dict[Plugin, asyncio.Task[None]] = {}
        self.started = self.retired = self.lost = 0

    def plugins(self) -> list[Plugin]:
        """Every living plugin, including those that are being retired."""
        held = [slot.plugin for slot in self._slots.values()] + [self._blank, *self._warming, *self._leaving]
        return [plugin for plugin in held if plugin is not None and plugin.alive]

    async def configure(self, key: bytes, request: bytes) -> bytes:
        """The answer to Configure, from memory where a sound plugin has that configuration already.

        Raises `BrokerError`, or AioRpcError with the plugin's answer.
        """
        slot = self._slots.pop(key, None) or Slot(request)
        self._slots[key] = slot  # the order is that of use
        while len(self._slots) > _REMEMBERED and (idle := [k for k, v in self._slots.items() if v.plugin is None]):
            del self._slots[idle[0]]
        held = slot.plugin
        if held is not None and self.is_doubtful(held):
            await self.renew(slot, held)
        else:
            await self.plugin(slot)
        return slot.response

    def slot(self, key: bytes) -> Slot | None:
        return self._slots.get(key)

    def ready(self, slot: Slot) -> Plugin | None:
        """The plugin of a configuration, if there is a usable one already."""
        slot.used_at = time.monotonic()
        return slot.plugin if slot.plugin is not None and slot.plugin.usable else None

    async def plugin(self, slot: Slot) -> Plugin:
        """The usable plugin of a configuration; started if there is none."""
        if (ready := self.ready(slot)) is not None:
            return ready
        async with slot.lock:
            if slot.plugin is not None and not slot.plugin.usable:
                self._drop(slot.plugin)
                slot.plugin = None
            if slot.plugin is None:
                slot.plugin = await self._configured(slot)
            return slot.plugin

    async def renew(self, slot: Slot, old: Plugin) -> Plugin:
        """A fresh plugin in place of `old`, which finishes the calls that it has begun. A second caller gets the first
        one's plugin.
        """
        async with slot.lock:
            if slot.plugin is not old and slot.plugin is not None and slot.plugin.usable:
                return slot.plugin
            slot.plugin = await self._configured(slot)
            self._drop(old)
            return slot.plugin

    async def anyone(self) -> Plugin:
        """A plugin for calls that need no configuration."""
        held = [slot.plugin for slot in reversed(self._slots.values())] + self._warming
        for plugin in held:
            if plugin is not None and plugin.usable:
                return plugin
        async with self._starting:
            if self._blank is None or not self._blank.usable:
                self._blank = await self._start()
            return self._blank

    async def watch(self) -> None:
        """Replace plugins that are old or large, end idle ones, kill hung ones. Runs until cancelled."""
        while True:
            await asyncio.sleep(self._settings.check_seconds)
            await asyncio.gather(*(self._look(slot) for slot in list(self._slots.values())))
            blank = self._blank
            if blank is not None and time.monotonic() - blank.used_at > self._settings.idle_seconds:
                self._blank = None
                self._drop(blank)

    async def close(self) -> None:
        """End all plugins, with or without running calls."""
        for plugin in self.plugins():
            if plugin not in self._leaving:
                self._drop(plugin, drain_seconds=0)
            elif plugin.running:
                plugin.kill()
        while self._leaving:
            await asyncio.wait(set(self._leaving.values()))
        shutil.rmtree(self._settings.scratch, ignore_errors=True)

    def is_doubtful(self, plugin: Plugin) -> bool:
        """Whether the plugin should be replaced: one that never reached its cluster is useless, and another may just
        have been refused.
        """
        return plugin.unreachable or bool(plugin.doubt and plugin.seconds >= self._settings.doubt_seconds)

    async def _look(self, slot: Slot) -> None:
        plugin, settings = slot.plugin, self._settings
        if plugin is None or slot.lock.locked():
            return
        idle = not plugin.running and time.monotonic() - max(slot.used_at, plugin.used_at) > settings.idle_seconds
        if idle or not plugin.usable:
            slot.plugin = None
            self._drop(plugin)
        elif plugin.seconds > settings.age_seconds or memory_bytes(plugin.pid) > settings.memory_bytes:
            with suppress(BrokerError, grpc.aio.AioRpcError):  # it still serves, and the next round checks it again
                await self.renew(slot, plugin)
        elif plugin.running:
            plugin.unanswered = 0 if await plugin.answers(settings.answer_seconds) else plugin.unanswered + 1
            if plugin.unanswered >= settings.patience:
                plugin.kill()

    async def _configured(self, slot: Slot) -> Plugin:
        """A plugin that has the configuration. A plugin that fails to take it is ended."""
        self._make_room(slot)
        async with self._starting:
            plugin, self._blank = self._blank, None
            if plugin is None or not plugin.usable:
                plugin = await self._start()
            self._warming.append(plugin)
        seconds = self._settings.start_seconds
        try:
            slot.response = await plugin.call("Configure", slot.request, seconds=seconds)
            plugin.unreachable = not await plugin.reaches_its_cluster(seconds)
            plugin.configured = True
        except BaseException:
            self._drop(plugin)
            raise
        finally:
            self._warming.remove(plugin)
        return plugin

    def _make_room(self, wanted: Slot) -> None:
        """End the idle plugin that was used longest ago, if there are as many as allowed. Raises `AllBusy`."""
        others = [slot for slot in self._slots.values() if slot.plugin is not None and slot is not wanted]
        if len(others) < self._settings.configurations:
            return
        idle = [slot for slot in others if slot.plugin is not None and not slot.plugin.running]
        if not idle:
            raise AllBusy(
                f"{len(others)} configurations of the kubernetes plugin are busy, which is the limit; "
                "wait, or raise the broker's `configurations`"
            )
        first = min(idle, key=lambda slot: slot.used_at)
        plugin, first.plugin = first.plugin, None
        if plugin is not None:
            self._drop(plugin)

    async def _start(self) -> Plugin:
        scratch = self._settings.scratch / f"plugin-{next(self._numbers)}"
        plugin = await Plugin.start(self._settings, engine=self._engine, scratch=scratch)
        self.started += 1
        if not await plugin.answers(self._settings.start_seconds):
            self._drop(plugin)
            raise PluginLost("the kubernetes plugin did not start: another program listens at its port")
        return plugin

    def _drop(self, plugin: Plugin, *, drain_seconds: float | None = None) -> None:
        """Never give the plugin out again; it ends in the background."""
        if plugin in self._leaving:
            return
        if plugin.alive:
            self.retired += 1
        else:
            self.lost += 1
        drain = self._settings.drain_seconds if drain_seconds is None else drain_seconds
        self._leaving[plugin] = asyncio.create_task(plugin.end(drain))
        self._leaving[plugin].add_done_callback(lambda _: self._leaving.pop(plugin, None))
