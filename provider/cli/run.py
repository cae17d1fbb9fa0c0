"""`lessor run`: the provider, until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine, Iterator
from typing import Any

import structlog
import typer

from lease.printable import printable
from provider.errors import ProviderError, SettingsError, StoreError, WrongChain

__all__ = ["register"]

_log = structlog.get_logger("lessor")
_WRONG_SETTINGS = 2


def register(app: typer.Typer) -> None:
    """Add `run`."""
    app.command()(run)


def run() -> None:
    """Follow the chain, bid on what fits, and run what is leased. Settings come from the environment (AP_…, LESSOR_…).

    SIGTERM or Ctrl-C ends it; tenants' workloads keep running and open bids stay open. Start it again and it goes on.
    A node or an API server that does not answer is named in the log and waited for.
    """
    from provider.daemon.app import run_provider  # noqa: PLC0415  other commands start without the daemon's parts
    from provider.observe.logs import configure_logging  # noqa: PLC0415
    from provider.settings import load_settings, unknown_variables  # noqa: PLC0415

    try:
        settings = load_settings()
    except SettingsError as error:
        raise _refused(error) from None
    configure_logging(form=settings.log_format, level=settings.log_level)
    for name, meant in unknown_variables(os.environ).items():
        _log.warning("settings.not_used", variable=name, **({"did_you_mean": meant} if meant else {}))
    try:
        asyncio.run(_until_told(run_provider(settings)))
    except Exception as error:
        raise _ending(error) from None


def _ending(error: Exception) -> BaseException:
    """What the command ends with: one line for what the operator can put right; a defect of ours keeps its traceback.

    Loops run in task groups, so what they raise comes in groups within groups.
    """
    from stacks.engine import EngineError  # noqa: PLC0415

    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, SettingsError | WrongChain | EngineError | StoreError):
            return _refused(cause)
    if all(isinstance(cause, ProviderError) for cause in causes):
        _log.error("provider.failed", problem=str(causes[0]), exc_info=error)
        return typer.Exit(1)
    return error


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exceptions themselves, out of their groups."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _causes(part)
    else:
        yield error


def _refused(error: BaseException) -> typer.Exit:
    typer.secho(f"lessor: {printable(str(error))}", err=True, fg=typer.colors.RED)
    return typer.Exit(_WRONG_SETTINGS)


async def _until_told(work: Coroutine[Any, Any, None]) -> None:
    """Run `work`; the first SIGTERM or SIGINT cancels it, a second one is Python's own business."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        _log.info("provider.stopping", signal=number.name)
        loop.remove_signal_handler(number)
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    try:
        await task
    except asyncio.CancelledError:
        _log.info("provider.stopped")
