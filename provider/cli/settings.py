"""`lessor settings`: every setting with its value, and where the value comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Annotated

import typer

from lease.exit_codes import SETTINGS
from lease.printable import printable_line
from provider.cli.output import Output, OutputOption, failure, print_result, warn
from provider.errors import SettingsError
from provider.settings import resolve
from provider.settings.reference import Setting, markdown, sections
from provider.units import mask_addresses

__all__ = ["setting_lines", "settings"]


def settings(
    part: Annotated[str, typer.Argument(help="Only settings with this text in a variable's name.")] = "",
    *,
    given: Annotated[bool, typer.Option("--set", help="Only settings that the environment sets.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the reference, docs/settings.md.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """List every setting with its value, its source and its meaning.

    Secrets are not shown. `lessor config show` names the file that a value comes from. Exit code 78: mistakes.

    Example: `lessor settings market`
    """
    if as_markdown:
        typer.echo(markdown(), nl=False)
        return
    wanted = [
        (section.title, [each for each in section.settings if _wanted(each, part, os.environ, given=given)])
        for section in sections()
    ]
    if output is Output.TABLE:
        for title, shown in wanted:
            _show(title, [line for each in shown for line in setting_lines(each, os.environ)])
    else:
        print_result([_document(each, title, os.environ) for title, shown in wanted for each in shown], (), output)
    found = resolve()
    for notice in found.notices:
        warn(notice)
    if found.problems:
        raise failure(SettingsError(*map(printable_line, found.problems)), code=SETTINGS)


def setting_lines(setting: Setting, environment: Mapping[str, str]) -> Iterator[str]:
    """Two lines: variable, value and source; then the description. Passwords in addresses are masked."""
    name, value, source = _value(setting, environment)
    yield f"{name} = {value or '(empty)'}  [{source}]"
    yield f"    {setting.form}. {setting.description}"


def _document(setting: Setting, section: str, environment: Mapping[str, str]) -> dict[str, object]:
    name, value, source = _value(setting, environment)
    own = {"setting": name, "value": value, "source": source, "section": section}
    return own | {key: getattr(setting, key) for key in ("variables", "form", "default", "description", "reloaded")}


def _value(setting: Setting, environment: Mapping[str, str]) -> tuple[str, str, str]:
    """Variable, value and source."""
    variable = _source(setting, environment)
    if variable is None:
        return setting.variables[0], setting.default, "default"
    return variable, _masked(environment[variable], secret=setting.secret), "environment"


def _wanted(setting: Setting, part: str, environment: Mapping[str, str], *, given: bool) -> bool:
    named = any(part.upper() in variable for variable in setting.variables)
    return named and (not given or _source(setting, environment) is not None)


def _source(setting: Setting, environment: Mapping[str, str]) -> str | None:
    """The variable that sets it; None when the default holds. An empty value counts as not set."""
    return next((variable for variable in setting.variables if environment.get(variable)), None)


def _masked(value: str, *, secret: bool) -> str:
    return "***" if secret else printable_line(mask_addresses(value))


def _show(title: str, lines: list[str]) -> None:
    if lines:
        typer.secho(f"\n{title}", bold=True)
        typer.echo("\n".join(lines))
