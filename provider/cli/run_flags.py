"""The options of `lessor run`: every setting is one, and so are the flags of the Go provider that have no meaning here.

They are read as the Go provider reads them (pflag): `--name value` or `--name=value`; a switch needs no value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provider.errors import ArgumentError
from provider.settings.go_flags import SWITCHES
from provider.settings.model import Settings
from provider.settings.spellings import field_of, is_secret, nearest_name, reason_of, squeezed

__all__ = ["run_flags"]

_SHORT = {"-y": "yes", "-o": "output", "-b": "broadcast-mode", "-a": "account-number", "-s": "sequence"}
_SWITCHES = frozenset(map(squeezed, SWITCHES))


def run_flags(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Name and value of each option. Raises `ArgumentError` that names every mistake."""
    problems: list[str] = []
    found = list(_options(iter(arguments), problems))
    if problems:
        raise ArgumentError("; ".join(problems))
    return found


def _options(arguments: Iterator[str], problems: list[str]) -> Iterator[tuple[str, str]]:
    for argument in arguments:
        written, equals, value = argument.partition("=")
        name = _SHORT.get(written) or (written[2:] if written.startswith("--") else "")
        if not name:
            problems.append(f"{argument[:80]!r} is no option; an option begins with --")
        elif problem := _refused(name):
            problems.append(problem)
            _skip_value(arguments, name, equals)
        elif not equals and not _is_switch(name) and (following := next(arguments, None)) is None:
            problems.append(f"--{name} needs a value")
        else:
            yield name, value if equals else "true" if _is_switch(name) else str(following)


def _skip_value(arguments: Iterator[str], name: str, equals: str) -> None:
    """A secret is passed over with its value, so that no message quotes the value."""
    if field_of(name) and not equals:
        next(arguments, None)


def _refused(name: str) -> str:
    field = field_of(name)
    if field and is_secret(field):
        return f"--{name} would show a secret to every user of this machine; set the variable, or name a file"
    if field or reason_of(name):
        return ""
    meant = nearest_name(name)
    return f"there is no option --{name[:80]}" + (f"; did you mean --{meant.replace('_', '-')}?" if meant else "")


def _is_switch(name: str) -> bool:
    field = field_of(name)
    return Settings.model_fields[field].annotation is bool if field else squeezed(name) in _SWITCHES
