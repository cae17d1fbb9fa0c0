"""The settings of a command: collected from their sources, checked, and every mistake named at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from provider.errors import SettingsError
from provider.settings.model import SEPARATOR, Settings
from provider.settings.sources import COMMAND_LINE, ENVIRONMENT, Given, Sources, collect
from provider.settings.spellings import field_of, is_secret, variables_of
from provider.units import mask_addresses

__all__ = ["Resolution", "load_settings", "resolve"]


@dataclass(frozen=True, slots=True)
class Resolution:
    """`given`: what each field was set to, and by which source; fields with their default are left out. `settings`:
    without the values that are wrong; None when what is left contradicts itself.
    """

    given: Mapping[str, Given]
    notices: tuple[str, ...]
    problems: tuple[str, ...]
    settings: Settings | None


def load_settings(**overrides: Any) -> Settings:
    """Settings from environment and files; `overrides` (by field name) win. Raises `SettingsError` naming every
    mistake.
    """
    found = resolve(**overrides)
    if found.problems or found.settings is None:
        raise SettingsError(*found.problems)
    return found.settings


def resolve(
    flags: Iterable[tuple[str, str]] = (), environment: Mapping[str, str] | None = None, **overrides: Any
) -> Resolution:
    """The settings of a command line (name and value of each flag), the environment and the files. Raises nothing."""
    home = overrides.get("home")
    sources = collect(flags, os.environ if environment is None else environment, home=Path(home) if home else None)
    values = {name: given.value for name, given in sources.given.items()} | overrides
    problems, settings = _checked(values, sources)
    return Resolution(sources.given, tuple(sources.notices), (*sources.problems, *problems), settings)


def _checked(values: Mapping[str, Any], sources: Sources) -> tuple[list[str], Settings | None]:
    """What is wrong, and the settings without it: contradictions between the rest are found too."""
    try:
        return [], Settings(**values)
    except ValidationError as error:
        wrong = {name: problem for problem in error.errors() if (name := _field(problem))}
        problems = [_explain(problem, sources.given) for problem in error.errors()]
    if not wrong:
        return list(_contradictions(problems, ())), None
    try:
        return problems, Settings(**{name: value for name, value in values.items() if name not in wrong})
    except ValidationError as error:
        more = [_explain(problem, sources.given) for problem in error.errors()]
        variables = [variables_of(Settings.model_fields[name])[0] for name in wrong]
        return [*problems, *_contradictions(more, variables)], None


def _contradictions(problems: Iterable[str], variables: Iterable[str]) -> Iterator[str]:
    """Each contradiction alone; those that come from a value that is wrong anyhow are left out."""
    for problem in problems:
        for part in problem.split(SEPARATOR):
            if not any(variable in part for variable in variables):
                yield part


def _field(problem: Any) -> str:
    return field_of(str(problem["loc"][0])) or _named(str(problem["loc"][0])) if problem["loc"] else ""


def _named(location: str) -> str:
    return location if location in Settings.model_fields else ""


def _explain(problem: Any, given: Mapping[str, Given]) -> str:
    location = str(problem["loc"][0]) if problem["loc"] else ""
    name, message = _field(problem), str(problem["msg"]).removeprefix("Value error, ")
    if not name:
        return f"{location}: no such setting" if problem["type"] == "extra_forbidden" else message
    field, source = Settings.model_fields[name], given.get(name)
    text = mask_addresses(str(problem["input"]))
    value = "***" if is_secret(name) else repr(text[:80])
    hint = f" ({field.description.rstrip('.')})" if field.description else ""
    where = f" in {source.source}" if source and source.source not in (COMMAND_LINE, ENVIRONMENT) else ""
    return f"{source.name if source else variables_of(field)[0]}={value}{where}: {message}{hint}"
