"""`lessor gateway`: the gateway as a process of its own, until a signal ends it."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
from typing import Annotated

import typer

from provider.cli.output import failure
from provider.cli.run import ending
from provider.cli.signals import until_signal
from provider.daemon.gateway_program import run_gateway
from provider.errors import SettingsError
from provider.observe.logs import configure_logging
from provider.settings import load_settings
from stacks.common import forbid_dumps

__all__ = ["gateway"]

_PR_SET_PDEATHSIG = 1


def gateway(
    *,
    parent: Annotated[int, typer.Option("--parent", help="End with this process.", min=0, hidden=True)] = 0,
) -> None:
    """Run the gateway for a provider on this machine whose LESSOR_GATEWAY_PROCESS is `separate`.

    The settings are those of `lessor run` without the key. The gateway reaches the provider through a socket in
    AP_HOME, so both run as one user. Open streams go on while the provider restarts; a manifest waits for the provider.
    SIGTERM or Ctrl-C ends the gateway; requests in progress have ten seconds.

    Example: `LESSOR_GATEWAY_PROCESS=separate lessor gateway`
    """
    forbid_dumps()
    if parent:
        _end_with(parent)
    try:
        settings = load_settings()
    except SettingsError as error:
        raise failure(error) from None
    configure_logging(form=settings.log_format, level=settings.log_level)
    try:
        asyncio.run(until_signal(run_gateway(settings), what="gateway"))
    except Exception as error:
        raise ending(error, event="gateway.failed") from None


def _end_with(parent: int) -> None:
    """Have the kernel send SIGTERM when the parent ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has ended before the kernel knew
        raise SystemExit(0)
