"""`lessor run`: the provider, until a signal ends it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import structlog
import typer

from lease.exit_codes import TROUBLE
from provider.cli.output import failure
from provider.cli.run_flags import run_flags
from provider.cli.signals import until_signal
from provider.daemon.app import run_provider
from provider.daemon.preflight import mistakes
from provider.daemon.reload import Reload
from provider.errors import ArgumentError, ProviderError, SettingsError, StoreError, WrongChain
from provider.observe.logs import configure_logging
from provider.settings import Resolution, Settings, resolve
from provider.settings.sources import COMMAND_LINE
from provider.settings.spellings import variables_of
from stacks.common import forbid_dumps
from stacks.engine import EngineError

__all__ = ["checked_settings", "ending", "run"]

_log = structlog.get_logger("lessor")


def run(context: typer.Context) -> None:
    """Run the provider: follow the chain, bid on orders that fit, serve the leases.

    Settings come from options, the environment (AP_…, AKASH_…, LESSOR_…), the file of AP_PROVIDER_CONFIG and
    `config/*.toml` in the home, in this order. Every setting is an option, such as `--bid-price-cpu-scale 0.004`, and
    the flags of `provider-services run` are accepted; `lessor config show` lists all, `lessor config check` finds
    mistakes before a restart.

    SIGTERM or Ctrl-C ends the provider. Workloads of tenants keep running and bids stay open, and the next `lessor run`
    continues with them. SIGHUP has prices, limits and other settings read again from files; docs/settings.md marks
    them. The provider waits for a node or an API server that does not answer, and names it in the log.

    Example: `AP_HOME=/var/lib/lessor lessor run --node https://rpc.example:443`
    """
    forbid_dumps()
    environment = dict(os.environ)
    try:
        settings, notices = checked_settings(context.args)
    except (SettingsError, ArgumentError) as error:
        raise failure(error) from None
    configure_logging(form=settings.log_format, level=settings.log_level)
    for notice in notices:
        _log.warning("settings.not_used", notice=notice)
    reload = Reload(settings, lambda: _found(context.args, environment).settings)
    try:
        work = run_provider(settings, reload=reload)
        asyncio.run(until_signal(work, what="provider", on_hangup=reload.asked.set))
    except Exception as error:
        raise ending(error) from None


def checked_settings(arguments: Sequence[str]) -> tuple[Settings, Sequence[str]]:
    """The settings, and the names that have no meaning here. Raises `SettingsError` with every mistake in the settings
    and on this machine, and `ArgumentError` for options that do not exist.
    """
    found = _found(arguments, os.environ)
    _hand_on(found.resolution)
    return found.settings, found.resolution.notices


@dataclass(frozen=True, slots=True)
class _Found:
    settings: Settings
    resolution: Resolution


def _found(arguments: Sequence[str], environment: Mapping[str, str]) -> _Found:
    """What the sources say, without a mistake. Raises as `checked_settings`."""
    found = resolve(run_flags(arguments), environment)
    problems = [*found.problems, *(mistakes(found.settings) if found.settings else ())]
    if problems or found.settings is None:
        raise SettingsError(*problems)
    return _Found(found.settings, found)


def _hand_on(found: Resolution) -> None:
    """Give child processes, such as a separate gateway, what only the command line says."""
    for name, given in found.given.items():
        if given.source == COMMAND_LINE:
            os.environ[variables_of(Settings.model_fields[name])[0]] = given.value


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
