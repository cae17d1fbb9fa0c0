"""The shared Kubernetes plugin as the engine uses it: its failure costs the saving, never an operation."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from stacks.broker import Broker, BrokerError, BrokerSettings, installed_plugin
from stacks.common.config import EngineConfig
from stacks.common.errors import EngineError
from stacks.common.processes import DATA_MARK

__all__ = ["SharedPlugin", "require_plugin"]

AGAIN_S = 60.0
"""Seconds without another try after a broker did not start, so that not every operation waits for it."""


def require_plugin(home: Path) -> None:
    """Raise `EngineError` with the remedy when the Kubernetes plugin is not installed in `home`, a PULUMI_HOME. The SDK
    takes the plugin of its own version only, and the engine lets Pulumi download none.
    """
    wanted = version("pulumi-kubernetes")
    try:
        installed_plugin(home, wanted)
    except BrokerError:
        raise EngineError(
            f"Pulumi's Kubernetes plugin {wanted} is not in {home / 'plugins'}, so that no lease could be served: run "
            f"`make tools` in the checkout, or `PULUMI_HOME={home} pulumi plugin install resource kubernetes {wanted}`"
        ) from None


class SharedPlugin:
    """One broker, started with the engine and ended with it. `environment`: the variables that processes of the engine
    inherit. `on_problem` is called at every change of `problem`, the first start included.
    """

    def __init__(
        self, config: EngineConfig, environment: dict[str, str], *, on_problem: Callable[[str], None] | None = None
    ) -> None:
        self._config = config
        self._environment = environment
        self._broker: Broker | None = None
        self._not_before = 0.0
        self._on_problem = on_problem
        self._last: str | None = None
        self.problem = ""
        """The reason why operations start plugins of their own at the moment; empty when they do not."""

    async def start(self) -> None:
        """Start the broker, so that the first operation need not wait; no plugin yet."""
        await self.providers()

    async def providers(self) -> str | None:
        """PULUMI_DEBUG_PROVIDERS of the next operation; None: the operation starts a plugin of its own."""
        if time.monotonic() < self._not_before:
            return None
        try:
            if self._broker is None:
                self._broker = self._made()
            address = await self._broker.debug_providers()
        except (BrokerError, OSError) as error:
            self._not_before = time.monotonic() + AGAIN_S
            self._report(str(error))
            return None
        self._report("")
        return address

    async def settled(self, stack: str) -> None:
        """After a failure: wait for the calls that the dead command line of `stack` began in the plugin, 30 s
        at most.
        """
        if self._broker is not None:
            with suppress(BrokerError):
                await self._broker.settled(stack)

    async def stop(self) -> None:
        """End it with its plugins."""
        if self._broker is not None:
            await self._broker.stop()

    @property
    def pid(self) -> int | None:
        return self._broker.pid if self._broker is not None else None

    def _report(self, problem: str) -> None:
        self.problem = problem
        if problem != self._last and self._on_problem is not None:
            self._on_problem(problem)
        self._last = problem

    def _made(self) -> Broker:
        plugin = installed_plugin(self._config.home, version("pulumi-kubernetes"))
        own = {
            DATA_MARK: str(self._config.data),
            "KUBECONFIG": str(self._config.kubeconfig_copy),
            "PULUMI_K8S_SUPPRESS_DEPRECATION_WARNINGS": "true",
        }
        settings = BrokerSettings(plugin=(str(plugin),), scratch=self._config.data / "tmp" / "broker")
        return Broker(settings, environment=self._environment | own)
