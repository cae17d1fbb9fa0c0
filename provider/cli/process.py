"""A command that is a process of its own beside the provider: its settings, its log, its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from provider.cli.output import failure
from provider.cli.run import ending
from provider.cli.signals import until_signal
from provider.errors import SettingsError
from provider.observe.logs import configure_logging
from provider.settings import Settings, load_settings
from stacks.common import forbid_dumps

__all__ = ["run_process"]


def run_process(work: Callable[[Settings], Coroutine[Any, Any, None]], *, what: str) -> None:
    """Run `work` with the settings until a signal ends it. `what` begins the names of the log events.

    Raises the exit of a mistake in the settings, and of what `ending` makes of a failure.
    """
    forbid_dumps()
    try:
        settings = load_settings()
    except SettingsError as error:
        raise failure(error) from None
    configure_logging(form=settings.log_format, level=settings.log_level)
    try:
        asyncio.run(until_signal(work(settings), what=what))
    except Exception as error:
        raise ending(error, event=f"{what}.failed") from None
