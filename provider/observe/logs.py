"""Logging with structlog, as text for people or JSON for machines; values that look like secrets are printed as ***.

Exceptions are logged by `plain_traceback`, in both formats and also those that the event loop, a thread or a library
reports: no local variables, and no text that may quote a value.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, TextIO

import structlog
from pydantic import SecretBytes, SecretStr

from lease.printable import printable_line
from provider.settings import LogFormat
from stacks.common import plain_traceback, use_plain_tracebacks

__all__ = ["configure_command", "configure_logging", "hide_secrets", "log_loop_problem", "set_level"]

_log = structlog.get_logger("lessor")

_SECRET_NAME = re.compile(
    r"mnemonic|password|passphrase|secret|private|token|authorization|credential|api_?key", re.IGNORECASE
)
_HIDDEN = "***"
_DEPTH = 6
_threshold = logging.INFO
"""The least level that is logged. Loggers are made once and keep their class, so each event is compared with this."""


def configure_command() -> None:
    """Have a command that nothing else has configured log as text without values; structlog's own default prints the
    local variables of every frame.
    """
    if not structlog.is_configured():
        structlog.configure(processors=_processors(LogFormat.CONSOLE, colors=False))


def configure_logging(*, form: LogFormat, level: str = "info", stream: TextIO | None = None) -> None:
    """Configure structlog, the warnings of libraries and uncaught exceptions for the whole process. `level`: debug,
    info, warning or error.
    """
    output = stream or sys.stderr
    set_level(level)
    structlog.configure(
        processors=[_drop_below, *_processors(form, colors=output.isatty() and not os.environ.get("NO_COLOR"))],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.PrintLoggerFactory(output),
        cache_logger_on_first_use=stream is None,
    )
    logging.basicConfig(handlers=[_Library()], level=logging.WARNING, force=True)
    use_plain_tracebacks()


def set_level(level: str) -> None:
    """Log `level` (debug, info, warning or error) and above from now on, in the whole process."""
    global _threshold  # noqa: PLW0603  the log is the process's
    _threshold = logging.getLevelNamesMapping()[level.upper()]


def _drop_below(_logger: Any, method: str, event: Any) -> Any:
    if structlog.processors.NAME_TO_LEVEL.get(method, logging.ERROR) < _threshold:
        raise structlog.DropEvent
    return event


def _processors(form: LogFormat, *, colors: bool) -> list[Any]:
    console = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.ExceptionRenderer(_exception_text),
        hide_secrets,
        *((structlog.processors.JSONRenderer(),) if form is LogFormat.JSON else (_make_printable, console)),
    ]


def log_loop_problem(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The exception handler of the event loop: an exception of a task or a callback that nothing awaits. The context
    itself is not logged, since it names tasks with the exceptions that they hold.
    """
    error = context.get("exception")
    _log.error("asyncio.exception", problem=str(context.get("message", "")), exc_info=error)


class _Library(logging.Handler):
    """Warnings of libraries, which use the standard library's logging, in the form of the log."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        text = str(record.msg) if error is not None else record.getMessage()
        method = "error" if record.levelno >= logging.ERROR else "warning"
        getattr(_log, method)("library.reported", library=record.name, problem=text, exc_info=error)


def _exception_text(exc_info: Any) -> str:
    return plain_traceback(exc_info[1]) if exc_info[1] is not None else ""


def hide_secrets(_logger: object, _method: str, event: Any) -> Any:
    """Replace values with a secret's name, and pydantic secrets anywhere, by ***."""
    return {name: _hidden(name, value, _DEPTH) for name, value in event.items()}


def _make_printable(_logger: object, _method: str, event: Any) -> Any:
    """Make texts of tenants and nodes printable, so that they neither control the operator's terminal nor look like
    lines of the log. JSON escapes them by itself.
    """
    shown = {name: _printable(value) for name, value in event.items() if name != "exception"}
    if lines := event.get("exception"):
        shown["exception"] = "\n".join(printable_line(line) for line in lines.split("\n"))
    return shown


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
