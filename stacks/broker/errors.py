"""Errors of the broker; a command line receives each as a gRPC status with its text."""

from __future__ import annotations

__all__ = ["AllBusy", "BrokerError", "PluginLost"]


class BrokerError(Exception):
    """Base of the errors of this package."""


class PluginLost(BrokerError):
    """The plugin did not start, or ended while it was needed. The next call starts another one."""


class AllBusy(BrokerError):
    """As many configurations as there may be plugins are in use at this moment."""
