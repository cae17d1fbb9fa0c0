"""What can go wrong with the broker; towards a command line every one of them is a gRPC status with its text."""

from __future__ import annotations

__all__ = ["AllBusy", "BrokerError", "PluginLost"]


class BrokerError(Exception):
    """Root of everything the broker raises on purpose."""


class PluginLost(BrokerError):
    """The plugin did not start, or ended while it was needed. The next call starts another one."""


class AllBusy(BrokerError):
    """As many configurations as there may be plugins are in use at this moment."""
