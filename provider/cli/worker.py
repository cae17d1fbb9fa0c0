"""`lessor worker`: stack operations for a provider on any machine, until a signal ends it."""

from __future__ import annotations

import asyncio

from provider.cli.output import failure
from provider.cli.run import ending
from provider.cli.signals import until_signal
from provider.daemon.worker import run_worker
from provider.errors import SettingsError
from provider.observe.logs import configure_logging
from provider.settings import load_settings
from stacks.common import forbid_dumps

__all__ = ["worker"]


def worker() -> None:
    """Run stack operations for a provider whose LESSOR_STACK_QUEUE is set, on this machine or another.

    The settings are those of `lessor run` without the key of the account; AP_HOME is the worker's own. SIGTERM or
    Ctrl-C interrupts what runs, and another worker goes on with it. A worker that loses the store ends; its supervisor
    starts it again.

    Example: `AP_HOME=/var/lib/lessor-worker lessor worker`
    """
    forbid_dumps()
    try:
        settings = load_settings()
    except SettingsError as error:
        raise failure(error) from None
    configure_logging(form=settings.log_format, level=settings.log_level)
    try:
        asyncio.run(until_signal(run_worker(settings), what="worker"))
    except Exception as error:
        raise ending(error, event="worker.failed") from None
