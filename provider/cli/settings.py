"""`lessor settings`: every setting with its value, and where the value comes from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from lease.printable import printable_line

if TYPE_CHECKING:
    from provider.settings.reference import Setting

__all__ = ["register", "setting_lines"]


def register(app: typer.Typer) -> None:
    """Add `settings`."""
    app.command()(settings)


def settings(
    part: Annotated[str, typer.Argument(help="Only settings with this text in a variable's name.")] = "",
    *,
    given: Annotated[bool, typer.Option("--set", help="Only settings that the environment sets.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the reference, docs/settings.md.")] = False,
) -> None:
    """List every setting: its variable, its value, where the value comes from, and its meaning. Secrets are not shown.

    Exit code: 2 when the environment holds a wrong value.
    """
    from provider.errors import SettingsError  # noqa: PLC0415  other commands start without the settings
    from provider.settings import load_settings, unknown_variables  # noqa: PLC0415
    from provider.settings.reference import markdown, sections  # noqa: PLC0415

    if as_markdown:
        typer.echo(markdown(), nl=False)
        return
    for section in sections():
        shown = [each for each in section.settings if _wanted(each, part, os.environ, given=given)]
        _show(section.title, [line for each in shown for line in setting_lines(each, os.environ)])
    for name, meant in unknown_variables(os.environ).items():
        typer.echo(f"{printable_line(name)} is no setting" + (f"; did you mean {meant}?" if meant else ""), err=True)
    try:
        load_settings()
    except SettingsError as error:
        typer.secho(f"lessor: {printable_line(str(error))}", err=True, fg=typer.colors.RED)
        raise typer.Exit(2) from None


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
    shown = re.sub(r"(password|token|key)=[^&\s]*", r"\1=***", re.sub(r"//\S*@", "//***@", value))
    return "***" if secret else printable_line(shown)


def _show(title: str, lines: list[str]) -> None:
    if lines:
        typer.secho(f"\n{title}", bold=True)
        typer.echo("\n".join(lines))
