"""The reference of settings, read out of the model: variables, form, default and description of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from provider.settings.go_flags import CHART_KEYS, NO_MEANING
from provider.settings.kinds import Form
from provider.settings.model import Settings, is_reloaded
from provider.settings.spellings import NOT_SETTINGS

__all__ = ["Section", "Setting", "markdown", "sections"]

_FORMS = {bool: "`true` or `false`", int: "whole number", float: "number", Path: "path", SecretStr: "text, secret"}
_UNITS_S = (("h", 3600), ("m", 60), ("s", 1))

_HEAD = """# Settings

`lessor settings --markdown` writes this file from the settings model (`make docs`). Change the descriptions in
`provider/settings/`.

A setting can be given in five ways. The first of them that names it wins:

1. an option of `lessor run`: `--bid-price-cpu-scale 0.004`;
2. a variable that begins with `AP_` or `LESSOR_`;
3. a variable that begins with `AKASH_`;
4. a key of the YAML file that AP_PROVIDER_CONFIG names, such as the `provider.yaml` of the Helm chart;
5. a key of a file `config/*.toml` in the home.

`AP_` and `AKASH_` begin the Go provider's names for the same setting, and its flags are options. In options and files a
name counts without its prefix, and case, `-`, `_` and `.` make no difference: `bid-price-cpu-scale`,
`bid_price_cpu_scale` and `bidpricecpuscale` are one setting. `domain` and `gatewayApi` of the Helm chart's values are
read as the chart reads them. An empty value counts as not set. Of `app.toml`, `client.toml` and `config.toml`, which
belong to the Cosmos SDK, only names of the Go provider's flags are read.

A name that is no setting stops the start, with the nearest one that is; so does a wrong value, with what is allowed.
All mistakes are named at once, before any connection is made. An `AP_` or `AKASH_` variable that is near no setting
only warns, since shells of tenants have such variables. `lessor config show` shows each value and where it comes from,
`lessor config check` finds the mistakes before a restart, and both take the options of `lessor run`. Other commands
read the same variables and files, so a home that only an option names is unknown to them.

On SIGHUP (`systemctl reload`, `kill -HUP`) a running provider reads all sources again, with the options and the
environment of its start. With a mistake in any of them, it names all mistakes in the log and changes nothing. Else it
takes the settings that have `yes` in the column SIGHUP; the log says what changed, and which changed settings wait for
a restart. Bids that are open keep their price. `nohup` and the end of the terminal mean what they mean for any program:
the first ignores the signal, the second ends the provider.
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """`variables`: in the order in which they win. `default` is empty when there is none. `reloaded`: on SIGHUP."""

    name: str
    variables: tuple[str, ...]
    form: str
    default: str
    description: str
    secret: bool
    reloaded: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """Settings of one part of the provider."""

    title: str
    settings: tuple[Setting, ...]


def sections() -> tuple[Section, ...]:
    """Every setting once, grouped by the classes of the model."""
    classes = [base for base in reversed(Settings.__bases__) if base.__module__.startswith(f"{__package__}.")]
    return tuple(_section(each) for each in classes if issubclass(each, BaseModel))


def markdown() -> str:
    """The text of docs/settings.md. It depends on the model only, not on the machine or its environment."""
    return "\n".join([_HEAD, *(_table(section) for section in sections()), _others(), *_foreign()])


def _section(model: type[BaseModel]) -> Section:
    return Section(str(model.__doc__), tuple(_setting(name, field) for name, field in model.model_fields.items()))


def _setting(name: str, field: FieldInfo) -> Setting:
    alias: Any = field.validation_alias
    return Setting(
        name,
        tuple(alias.choices),
        "; ".join(filter(None, [_form(field), _limits(field)])),
        _default(field),
        field.description or "",
        secret="SecretStr" in str(field.annotation),
        reloaded=is_reloaded(name),
    )


def _form(field: FieldInfo) -> str:
    parts = [*_parts(field.annotation), *field.metadata]
    forms = [part.text for part in parts if isinstance(part, Form)]
    return forms[-1] if forms else next(filter(None, map(_plain_form, parts)), "text")


def _parts(annotation: Any) -> Iterator[Any]:
    """The annotation itself and what a union or an `Annotated` in it is made of."""
    yield annotation
    if get_origin(annotation) is not Literal:
        for argument in get_args(annotation):
            yield from _parts(argument)


def _plain_form(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return _one_of(get_args(kind))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _one_of(kind)
    return _FORMS.get(kind, "") if isinstance(kind, type) else ""


def _one_of(values: Any) -> str:
    *others, last = (f"`{value}`" for value in values)
    return f"{', '.join(others)} or {last}"


def _limits(field: FieldInfo) -> str:
    """The limits of a field and of its kind both hold, so the narrower one is named."""
    low, high = max(_bounds(field, "ge"), default=0), min(_bounds(field, "le"), default=None)
    lowest = [("above", bound) for bound in _bounds(field, "gt")] or ([("at least", low)] if low else [])
    highest = [("below", bound) for bound in _bounds(field, "lt")] or ([] if high is None else [("at most", high)])
    return ", ".join(f"{words} {_value(bound, field)}" for words, bound in lowest + highest)


def _bounds(field: FieldInfo, side: Literal["ge", "gt", "le", "lt"]) -> list[Any]:
    found = (getattr(constraint, side, None) for constraint in field.metadata)
    return [bound for bound in found if bound is not None]


def _default(field: FieldInfo) -> str:
    value = field.default
    if isinstance(value, SecretStr) or value in (None, "", (), {}):
        return ""
    if isinstance(value, Path):
        return str(value).replace(str(Path.home()), "~", 1)
    return _value(value, field)


def _value(value: Any, field: FieldInfo) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return _duration(float(value)) if _form(field).startswith("duration") else str(value)


def _duration(seconds: float) -> str:
    """As the Go provider writes it: 90 seconds are `1m30s`."""
    text, rest = "", int(seconds)
    for unit, size in _UNITS_S:
        count, rest = divmod(rest, size)
        text += f"{count}{unit}" if count else ""
    return text or "0"


def _table(section: Section) -> str:
    lines = [f"## {section.title}", "", "| variable | form | default | SIGHUP | description |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *(_row(setting) for setting in section.settings), ""])


def _row(setting: Setting) -> str:
    names = "<br>".join(f"`{variable}`" for variable in setting.variables)
    default = f"`{setting.default}`" if setting.default else ""
    again = "yes" if setting.reloaded else ""
    return f"| {names} | {setting.form} | {default} | {again} | {setting.description} |"


def _others() -> str:
    lines = ["## Variables that are no settings of the provider", "", "| variable | use |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{name}` | {use} |" for name, use in NOT_SETTINGS.items()), ""])


def _foreign() -> Iterator[str]:
    """The tables of the names that have no meaning here."""
    yield _reasons(
        "Names of the Go provider that have no meaning here",
        "Options, variables with `AP_` or `AKASH_` and files may have them. A notice names each that is set.",
        {f"--{flag}": reason for flag, reason in NO_MEANING.items()},
    )
    yield _reasons(
        "Keys of the Helm chart that have no meaning here",
        "Case, `-` and `_` make no difference. `attributes` filters orders; `host`, `info`, `email` and `website` are "
        "for the provider's record on the chain. `bidpricescript` stops the start.",
        CHART_KEYS,
    )


def _reasons(title: str, text: str, reasons: Mapping[str, str]) -> str:
    lines = [f"## {title}", "", text, "", "| name | reason |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{name}` | {reason} |" for name, reason in reasons.items()), ""])
