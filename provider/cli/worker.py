"""`lessor worker`: stack operations for a provider on any machine, until a signal ends it."""

from __future__ import annotations

from provider.cli.process import run_process
from provider.daemon.worker import run_worker

__all__ = ["worker"]


def worker() -> None:
    """Run stack operations for a provider whose LESSOR_STACK_QUEUE is set, on this machine or another.

    The settings are those of `lessor run` without the key of the account; AP_HOME is the worker's own. SIGTERM or
    Ctrl-C interrupts what runs, and another worker goes on with it. A worker that loses the store ends; its supervisor
    starts it again.

    Example: `AP_HOME=/var/lib/lessor-worker lessor worker`
    """
    run_process(run_worker, what="worker")
