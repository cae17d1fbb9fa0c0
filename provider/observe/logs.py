"""Logging with structlog, as text for people or JSON for machines; values that look like secrets are printed as ***."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from typing import Any, TextIO

import structlog
from pydantic import SecretBytes, SecretStr

from lease.printable import printable_line
from provider.settings import LogFormat

__all__ = ["configure_logging", "hide_secrets"]

_SECRET_NAME = re.compile(
    r"mnemonic|password|passphrase|secret|private|token|authorization|credential|api_?key", re.IGNORECASE
)
_HIDDEN = "***"
_DEPTH = 6


def configure_logging(*, form: LogFormat, level: str = "info", stream: TextIO | None = None) -> None:
    """Configure structlog for the whole process. `level`: debug, info, warning or error."""
    output = stream or sys.stderr
    console = structlog.dev.ConsoleRenderer(colors=output.isatty())
    renderer: Any = structlog.processors.JSONRenderer() if form is LogFormat.JSON else console
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info if form is LogFormat.JSON else _pass,
            hide_secrets,
            _pass if form is LogFormat.JSON else _make_printable,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(output),
        cache_logger_on_first_use=stream is None,
    )


def hide_secrets(_logger: object, _method: str, event: Any) -> Any:
    """Replace values with a secret's name, and pydantic secrets anywhere, by ***."""
    return {name: _hidden(name, value, _DEPTH) for name, value in event.items()}


def _pass(_logger: object, _method: str, event: Any) -> Any:
    return event


def _make_printable(_logger: object, _method: str, event: Any) -> Any:
    """Make texts of tenants and nodes printable, so that they neither control the operator's terminal nor look like
    lines of the log. JSON escapes them by itself.
    """
    return {name: _printable(value) for name, value in event.items()}


def _printable(value: Any) -> Any:
    match value:
        case str():
            return printable_line(value)
        case list() | tuple():
            return [_printable(item) for item in value]
        case Mapping():
            return {printable_line(str(key)): _printable(item) for key, item in value.items()}
    return value


def _hidden(name: str, value: Any, depth: int) -> Any:
    if _SECRET_NAME.search(name) or isinstance(value, SecretStr | SecretBytes):
        return _HIDDEN
    if depth and isinstance(value, Mapping):
        return {str(key): _hidden(str(key), item, depth - 1) for key, item in value.items()}
    if depth and isinstance(value, list | tuple):
        return [_hidden("", item, depth - 1) for item in value]
    return value
