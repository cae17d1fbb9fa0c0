"""`lessor gateway`: the gateway as a process of its own, until a signal ends it."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Annotated

import typer

from provider.cli.process import run_process
from provider.daemon.gateway_program import run_gateway

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
    if parent:
        _end_with(parent)
    run_process(run_gateway, what="gateway")


def _end_with(parent: int) -> None:
    """Have the kernel send SIGTERM when the parent ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has ended before the kernel knew
        raise SystemExit(0)
