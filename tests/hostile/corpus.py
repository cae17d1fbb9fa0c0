"""The corpus of hostile inputs, and the entry points that every input of their form is run against.

An input is added as a `HostileInput` in `INPUTS` of a module in `tests/hostile/inputs/`. An entry point is added as an
`EntryPoint` in `ENTRY_POINTS` of a module in `tests/hostile/entries/`. Both are found by being there, and
`test_every_entry_point.py` runs each entry point with each input of its form. Benchmarks use the same inputs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["EntryPoint", "HostileInput", "entry_points", "hostile_inputs"]

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class HostileInput:
    """`form` names what the bytes are: `group` (a GroupSpec message), `manifest` (JSON), `http` (bytes of a client
    after its TLS handshake), `http2` (the same for gRPC), `token` (the value of an Authorization header), or a new one.
    `make` returns the bytes; it is called once and only when the input is used.
    """

    name: str
    form: str
    make: Callable[[], bytes]

    @property
    def data(self) -> bytes:
        return _made(self)


@cache
def _made(item: HostileInput) -> bytes:
    return item.make()


@dataclass(frozen=True)
class EntryPoint:
    """`run` gives an input of `form` to the code and returns what the code did for it, as counts by name. `most` holds
    the limit of each count; a count without a limit fails the test. `run` raises only when the code fails to refuse.
    """

    name: str
    form: str
    run: Callable[[bytes, Path], Awaitable[Mapping[str, int]]]
    most: Mapping[str, int]


def hostile_inputs(form: str = "") -> tuple[HostileInput, ...]:
    """All inputs, or those of one form."""
    found: tuple[HostileInput, ...] = _collected("inputs", "INPUTS")
    return tuple(item for item in found if not form or item.form == form)


def entry_points() -> tuple[EntryPoint, ...]:
    found: tuple[EntryPoint, ...] = _collected("entries", "ENTRY_POINTS")
    return found


@cache
def _collected(folder: str, name: str) -> tuple[Any, ...]:
    modules = (path.stem for path in sorted((_HERE / folder).glob("*.py")))
    return tuple(
        item for module in modules for item in getattr(import_module(f"tests.hostile.{folder}.{module}"), name)
    )
