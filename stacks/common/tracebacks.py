"""Tracebacks without data: where an exception was raised, and no value that the code held there.

Local variables of an unexpected exception's frames hold tenants' environments, and its text often quotes the value that
was not expected. So only frames are shown, and only texts of exceptions that this project or the operating system
wrote.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Iterator
from types import TracebackType

__all__ = ["exception_text", "plain_traceback", "use_plain_tracebacks"]

_OWN = ("components.", "devnet.", "lease.", "policies.", "provider.", "stacks.")
_WITHHELD = "(its text is not shown, as it may hold a secret)"
_DEPTH = 16
_FRAMES = 64


def exception_text(error: BaseException) -> str:
    """The type of the exception, with its text where that cannot be a tenant's value."""
    name = type(error).__name__
    if isinstance(error, OSError) and error.errno:  # the number's meaning, since the arguments can be anything
        return f"{name}: {os.strerror(error.errno)}" + (f": {error.filename}" if error.filename else "")
    if type(error).__module__.startswith(_OWN):
        return f"{name}: {error}"
    return f"{name} {_WITHHELD}" if error.args else name


def plain_traceback(error: BaseException) -> str:
    """The frames of the exception, of its causes and of the exceptions in its group, as Python prints them, without
    local variables and without texts that may hold a value.
    """
    return "\n".join(_lines(error, _DEPTH))


def use_plain_tracebacks() -> None:
    """Print every exception that nothing catches with `plain_traceback`: in the main thread, in other threads, and
    where Python ignores it.
    """
    sys.excepthook = _print
    threading.excepthook = lambda found: _print(found.exc_type, found.exc_value, found.exc_traceback)
    sys.unraisablehook = lambda found: _print(found.exc_type, found.exc_value, found.exc_traceback)


def _print(kind: type[BaseException], error: BaseException | None, _trace: TracebackType | None) -> None:
    sys.stderr.write(f"{plain_traceback(error) if error is not None else kind.__name__}\n")
    sys.stderr.flush()


def _lines(error: BaseException, depth: int) -> Iterator[str]:
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and depth:
        yield from _lines(before, depth - 1)
        yield "\nThe exception above led to the following one:\n"
    yield "Traceback (most recent call last):"
    for frame in traceback.extract_tb(error.__traceback__)[-_FRAMES:]:
        yield f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}'
        if frame.line:
            yield f"    {frame.line}"
    yield exception_text(error)
    if isinstance(error, BaseExceptionGroup) and depth:
        for part in error.exceptions:
            yield from (f"  | {line}" for line in _lines(part, depth - 1))
