"""The work of a piece of Python, as a count that is the same on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

__all__ = ["calls_of", "lines_of"]

_T = TypeVar("_T")


def calls_of(work: Callable[[], _T]) -> tuple[int, _T]:
    """How many functions, of Python and of C, `work` called, and what it returned."""
    count = 0

    def tick(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(tick)
    try:
        result = work()
    finally:
        sys.setprofile(before)
    return count, result


def lines_of(work: Callable[[], object]) -> int:
    """How many lines of Python `work` ran."""
    count = 0

    def tick(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return tick

    before = sys.gettrace()
    sys.settrace(tick)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
