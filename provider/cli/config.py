"""`lessor config`: the settings with their sources, and every mistake before a restart.

Both commands take the options of `lessor run`, so that they see what that command would see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from lease.exit_codes import SETTINGS
from lease.printable import printable_line
from provider.cli.output import Output, OutputOption, failure, print_result, table_lines, warn
from provider.cli.run_flags import run_flags
from provider.errors import ArgumentError, SettingsError
from provider.settings import Resolution, resolve
from provider.settings.reference import Setting, sections
from provider.settings.sources import Given
from provider.units import mask_addresses

__all__ = ["SettingRow", "check", "setting_rows", "show"]

_DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class SettingRow:
    """`value`: with passwords and secrets masked. `source`: `command line`, `environment`, a file, or `default`."""

    setting: str
    value: str
    source: str


def show(
    context: typer.Context,
    *,
    only: Annotated[str, typer.Option("--only", help="Only settings with this text in a variable's name.")] = "",
    given: Annotated[bool, typer.Option("--set", help="Only settings that a source sets.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show every setting, its value and where it comes from.

    The command line wins over AP_…, AP_… over AKASH_…, the environment over the file of AP_PROVIDER_CONFIG, and that
    file over `config/*.toml` in the home. Secrets are not shown. Options of `lessor run` are accepted.

    Example: `lessor config show --set`
    """
    found = _resolved(context)
    rows = [row for row in setting_rows(found.given, only=only.upper()) if not given or row.source != _DEFAULT]
    document = {
        "settings": {row.setting: {"value": row.value, "source": row.source} for row in rows},
        "no_meaning": list(found.notices),
        "mistakes": list(found.problems),
    }
    cells = [(row.setting, row.value or "(empty)", row.source) for row in rows]
    print_result(document, table_lines(cells, header=("setting", "value", "source")), output)
    _end(found)


def check(context: typer.Context, *, output: OutputOption = Output.TABLE) -> None:
    """Find every mistake in the settings and on this machine.

    Nothing is connected to or started: settings of all sources, files, the price, the key, the kubeconfig, the
    policy file and the engine's programs. Options of `lessor run` are accepted. Exit code 78: there are mistakes.

    Example: `lessor config check && systemctl restart lessor`
    """
    from provider.daemon.preflight import mistakes  # noqa: PLC0415  `config show` needs no engine

    found = _resolved(context)
    machine = mistakes(found.settings) if found.settings else []
    problems = [*found.problems, *machine]
    for notice in found.notices:
        warn(notice)
    if not problems or output is not Output.TABLE:
        print_result({"no_meaning": list(found.notices), "mistakes": problems}, ["no mistakes"], output)
    if problems:
        raise failure(SettingsError(*problems))


def _resolved(context: typer.Context) -> Resolution:
    try:
        return resolve(run_flags(context.args))
    except ArgumentError as error:
        raise failure(error) from None


def _end(found: Resolution) -> None:
    for notice in found.notices:
        warn(notice)
    if found.problems:
        raise failure(SettingsError(*map(printable_line, found.problems)), code=SETTINGS)


def setting_rows(given: Mapping[str, Given], *, only: str = "") -> Iterator[SettingRow]:
    """A row for each setting with `only` in a variable's name."""
    for section in sections():
        for setting in section.settings:
            if any(only in variable for variable in setting.variables):
                yield _row(setting, given.get(setting.name))


def _row(setting: Setting, given: Given | None) -> SettingRow:
    if given is None:
        return SettingRow(setting.variables[0], setting.default, _DEFAULT)
    value = "***" if setting.secret else printable_line(mask_addresses(given.value))
    name = given.name if given.source == "environment" else setting.variables[0]
    return SettingRow(name, value, given.source)
