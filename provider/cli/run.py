"""`lessor run`: the provider, until a signal ends it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import structlog
import typer

from lease.exit_codes import TROUBLE
from provider.cli.output import failure
from provider.cli.signals import until_signal
from provider.daemon.app import run_provider
from provider.errors import ProviderError, SettingsError, StoreError, WrongChain
from provider.observe.logs import configure_logging
from provider.settings import load_settings, unknown_variables
from stacks.common import forbid_dumps
from stacks.engine import EngineError

__all__ = ["ending", "run"]

_log = structlog.get_logger("lessor")


def run() -> None:
    """Run the provider: follow the chain, bid on orders that fit, serve the leases.

    Settings come from the environment (AP_…, LESSOR_…); `lessor settings` lists them. SIGTERM or Ctrl-C ends the
    provider. Workloads of tenants keep running and bids stay open, and the next `lessor run` continues with them. The
    provider waits for a node or an API server that does not answer, and names it in the log.
    """
    forbid_dumps()
    try:
        settings = load_settings()
    except SettingsError as error:
        raise failure(error) from None
    configure_logging(form=settings.log_format, level=settings.log_level)
    for name, meant in unknown_variables(os.environ).items():
        _log.warning("settings.not_used", variable=name, **({"did_you_mean": meant} if meant else {}))
    try:
        asyncio.run(until_signal(run_provider(settings), what="provider"))
    except Exception as error:
        raise ending(error) from None


def ending(error: Exception, *, event: str = "provider.failed") -> BaseException:
    """The exception that ends the command: an exit with one line for what the operator can put right, else `error`
    itself with its traceback, since it is a defect of Lessor. `event`: the name of the log event for a fault that is
    neither.

    Loops run in task groups, so their exceptions come in groups within groups.
    """
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, SettingsError | WrongChain | EngineError | StoreError):
            return failure(cause)
    if all(isinstance(cause, ProviderError) for cause in causes):
        _log.error(event, problem=str(causes[0]), exc_info=error)
        return typer.Exit(TROUBLE)
    return error


def _causes(error: Exception) -> Iterator[Exception]:
    """The exceptions inside `error`'s groups; `error` itself when it is no group."""
    if isinstance(error, ExceptionGroup):
        for part in error.exceptions:
            yield from _causes(part)
    else:
        yield error
