"""`lessor run`: the provider, until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

import structlog
import typer

from provider.errors import ProviderError, SettingsError, WrongChain

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
    from provider.app import run_provider  # noqa: PLC0415  other commands start without the daemon's parts
    from provider.observe.logs import configure_logging  # noqa: PLC0415
    from provider.settings import load_settings  # noqa: PLC0415
    from stacks.engine import EngineError  # noqa: PLC0415

    try:
        settings = load_settings()
    except SettingsError as error:
        raise _refused(error) from None
    configure_logging(form=settings.log_format, level=settings.log_level)
    try:
        asyncio.run(_until_told(run_provider(settings)))
    except* (SettingsError, WrongChain, EngineError) as errors:
        raise _refused(errors.exceptions[0]) from None
    except* ProviderError as errors:
        _log.exception("provider.failed", problem=str(errors.exceptions[0]))
        raise typer.Exit(1) from None


def _refused(error: BaseException) -> typer.Exit:
    typer.secho(f"lessor: {error}", err=True, fg=typer.colors.RED)
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
