"""Where settings come from, and which source wins: command line, environment, `provider.yaml`, `config/*.toml`.

The order is the Go provider's (bidding.md §6), with the file of `AP_PROVIDER_CONFIG` before the files of the home. What
the sources say is collected whole, so that every mistake is known at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from provider.settings.files import FileContent, Item, read_file
from provider.settings.go_flags import CHART_KEYS, PROVIDER_RECORD
from provider.settings.model import Settings
from provider.settings.spellings import (
    field_of,
    is_secret,
    nearest_name,
    reason_of,
    squeezed,
    unknown_variables,
    variables_of,
)
from provider.units import mask_addresses

__all__ = ["COMMAND_LINE", "ENVIRONMENT", "Given", "Sources", "collect"]

COMMAND_LINE, ENVIRONMENT = "command line", "environment"
_CONFIG = "config"
_SDK_FILES = frozenset({"app.toml", "client.toml", "config.toml"})
"""Files of the Cosmos SDK in the home of a Go provider: most of their keys are for a node."""
_SKIPPED = PROVIDER_RECORD | {
    key
    for key in CHART_KEYS
    if key not in {"bidpricescript", "gatewayapiimplementation"} and not key.startswith(("pricetarget", "key"))
}


@dataclass(frozen=True, slots=True)
class Given:
    """A setting as one source has it. `name`: as it is written there."""

    name: str
    value: str
    source: str


@dataclass(slots=True)
class Sources:
    """What all sources say. `given`: by field of the model, the one that wins. `notices`: names that have no meaning
    here, each with the reason.
    """

    given: dict[str, Given] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, name: str, found: Given) -> None:
        """Take a setting unless a source that wins has it. An empty value counts as not set."""
        if found.value:
            self.given.setdefault(name, found)


def collect(flags: Iterable[tuple[str, str]], environment: Mapping[str, str], *, home: Path | None = None) -> Sources:
    """What the command line, the environment and the files say. `home`: instead of the one that they name."""
    found = Sources()
    _from_flags(found, flags)
    _from_environment(found, environment)
    folder = home or Path(found.given["home"].value if "home" in found.given else Settings.model_fields["home"].default)
    files = Sources()
    for path in sorted((folder / _CONFIG).glob("*.toml")):
        _from_toml(files, path)
    config = found.given.get("provider_config") or files.given.get("provider_config")
    if config is not None:
        _from_yaml(found, Path(config.value), config)
    for name, given in files.given.items():
        found.add(name, given)
    found.notices += files.notices
    found.problems += files.problems
    return found


def _from_flags(found: Sources, flags: Iterable[tuple[str, str]]) -> None:
    """As with the Go provider, the last of two equal flags wins."""
    for flag, value in reversed(list(flags)):
        if name := field_of(flag):
            found.add(name, Given(f"--{flag}", value, COMMAND_LINE))
        else:
            found.notices.append(f"--{flag}: {reason_of(flag)}")


def _from_environment(found: Sources, environment: Mapping[str, str]) -> None:
    for name, each in Settings.model_fields.items():
        for variable in variables_of(each):
            found.add(name, Given(variable, environment.get(variable, ""), ENVIRONMENT))
    for variable, meant in unknown_variables(environment).items():
        text = f"{variable} is no setting" + (f"; did you mean {meant}?" if meant else "")
        refused = meant or variable.startswith("LESSOR_")
        (found.problems if refused else found.notices).append(text)
    for variable in sorted(environment):
        if variable.startswith(("AP_", "AKASH_")) and environment[variable] and not _is_known(variable):
            reason = reason_of(variable)
            found.notices += [f"{variable}: {reason}"] if reason else []


def _is_known(variable: str) -> bool:
    name = field_of(variable)
    return bool(name) and variable in variables_of(Settings.model_fields[name])


def _from_toml(found: Sources, path: Path) -> None:
    content = read_file(path)
    if path.name in _SDK_FILES:
        found.problems += [f"{path}: {problem}" for problem in content.problems]
        _take_known(found, path, content.items)
    else:
        _take(found, path, content)


def _take_known(found: Sources, path: Path, items: Sequence[Item]) -> None:
    """Of a file of the Cosmos SDK only what the Go provider reads there: its flags, on the uppermost level."""
    for item in items:
        name = field_of(item.key)
        if name and name != "home" and any(v.startswith("AP_") for v in variables_of(Settings.model_fields[name])):
            found.add(name, Given(item.key, item.value, str(path)))


def _from_yaml(found: Sources, path: Path, config: Given) -> None:
    content = read_file(path, skip=_SKIPPED)
    found.problems += [f"{config.name}={path}: {problem}" for problem in content.problems]
    content.problems.clear()
    _take(found, path, FileContent(list(_of_chart(content.items))))


def _of_chart(items: Iterable[Item]) -> Iterable[Item]:
    """The items, with those that the chart makes of `domain` and `gatewayApi.enabled`."""
    for item in items:
        match squeezed(item.key):
            case "domain" if item.value:
                yield Item("cluster-public-hostname", f"provider.{item.value}", item.where)
                yield Item("deployment-ingress-domain", f"ingress.{item.value}", item.where)
                yield Item("deployment-ingress-static-hosts", "true", item.where)
            case "gatewayapienabled":
                yield Item("ingress-mode", "gateway-api" if item.value.lower() == "true" else "ingress", item.where)
            case "domain":
                pass
            case _:
                yield item


def _take(found: Sources, path: Path, content: FileContent) -> None:
    """Settings of a file whose every key must be known. Two spellings of one setting with two values contradict each
    other, in one file as in two.
    """
    found.problems += [f"{path}: {problem}" for problem in content.problems]
    for item in content.items:
        name, before = field_of(item.key), found.given.get(field_of(item.key))
        if name == "home":
            found.notices += [f"{item.key} in {path}: a file cannot move the home; set AP_HOME"] if item.value else []
        elif not name:
            _take_unknown(found, path, item)
        elif before and before.source not in (COMMAND_LINE, ENVIRONMENT) and item.value not in ("", before.value):
            value = "***" if is_secret(name) else repr(mask_addresses(item.value)[:60])
            found.problems.append(
                f"{path}: {item.key}={value}{item.where} contradicts {before.name} in {before.source}"
            )
        else:
            found.add(name, Given(item.key, item.value, str(path)))


def _take_unknown(found: Sources, path: Path, item: Item) -> None:
    reason = reason_of(item.key)
    if squeezed(item.key) == "bidpricescript" and item.value:
        found.problems.append(f"{path}: {item.key}{item.where}: {reason}")
    elif reason:
        found.notices += [f"{item.key} in {path}: {reason}"] if item.value else []
    else:
        meant = nearest_name(item.key)
        hint = f"; did you mean {meant}?" if meant else ""
        found.problems.append(f"{path}: {item.key[:80]!r}{item.where} is no setting{hint}")
