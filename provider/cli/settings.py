"""`lessor settings`: every setting with its value, and where the value comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Annotated

import typer

from lease.exit_codes import FINDING, SETTINGS
from lease.printable import printable_line
from provider.cli.output import failure
from provider.errors import SettingsError
from provider.settings import load_settings, unknown_variables
from provider.settings.reference import Setting, markdown, sections
from provider.units import mask_addresses

__all__ = ["setting_lines", "settings"]


def settings(
    part: Annotated[str, typer.Argument(help="Only settings with this text in a variable's name.")] = "",
    *,
    given: Annotated[bool, typer.Option("--set", help="Only settings that the environment sets.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the reference, docs/settings.md.")] = False,
) -> None:
    """List every setting with its value, its source and its meaning.

    Secrets are not shown. Exit code 1: a variable is no setting; 78: the environment holds a wrong value.
    """
    if as_markdown:
        typer.echo(markdown(), nl=False)
        return
    for section in sections():
        shown = [each for each in section.settings if _wanted(each, part, os.environ, given=given)]
        _show(section.title, [line for each in shown for line in setting_lines(each, os.environ)])
    unknown = unknown_variables(os.environ)
    for name, meant in unknown.items():
        typer.echo(f"{printable_line(name)} is no setting" + (f"; did you mean {meant}?" if meant else ""), err=True)
    try:
        load_settings()
    except SettingsError as error:
        raise failure(printable_line(str(error)), code=SETTINGS) from None
    if unknown:
        raise typer.Exit(FINDING)


def setting_lines(setting: Setting, environment: Mapping[str, str]) -> Iterator[str]:
    """Two lines: variable, value and source; then the description. Passwords in addresses are masked."""
    variable = _source(setting, environment)
    if variable is None:
        name, value, source = setting.variables[0], setting.default or "(empty)", "default"
    else:
        value, source = _masked(environment[variable], secret=setting.secret), "environment"
        name = variable
    yield f"{name} = {value}  [{source}]"
    yield f"    {setting.form}. {setting.description}"


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
