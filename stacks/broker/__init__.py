"""One Kubernetes plugin for all stacks of a cluster and configuration, behind a gRPC broker in a process of its own.

A command line with `PULUMI_DEBUG_PROVIDERS=kubernetes:PORT` attaches to the broker instead of starting a plugin. That
saves it a process, the discovery of the API server and 0.15 CPU seconds (toolchain.md §3, shared plugin). The engine
holds a `Broker`; `python -m stacks.broker` is its process.
"""

from __future__ import annotations

from stacks.broker.errors import BrokerError
from stacks.broker.handle import Broker
from stacks.broker.settings import BrokerSettings, BrokerStatus, PluginStatus, installed_plugin

__all__ = ["Broker", "BrokerError", "BrokerSettings", "BrokerStatus", "PluginStatus", "installed_plugin"]
