"""The price table: a YAML file of prices in USD. An error names the line and the column.

per: month              # or block
cpu: 1.60               # a thread
memory: 0.80            # a GiB, as storage
storage: {ephemeral: 0.02, beta3: 0.04, default: 0, ram: 0}
endpoint: 0.05
ip: 5
gpu: {a100: 700, a100.80Gi: 800, a100.80Gi.sxm: 900, "*": highest}
owners: {akash1…: 0.9}  # times this
minimum: 1
precision: 6            # decimals of a bid
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import yaml

from provider.errors import SettingsError

__all__ = ["HIGHEST", "PriceTable", "load_price_table", "parse_price_table"]

HIGHEST = Decimal(-1)
"""The value of `highest`: the price of the dearest card in the table, at least 100 (bidding.md §2.4)."""
_BYTES = 128 << 10
_DEEPEST = 16
_NUMBER = re.compile(r"[+-]?\d{1,40}(\.\d{0,40})?([eE][+-]?\d{1,3})?|[+-]?\.\d{1,40}", re.ASCII)
_TENANT = re.compile(r"akash1[02-9ac-hj-np-z]{38}")
_LARGEST = Decimal(10) ** 12
_AMOUNTS = frozenset({"cpu", "memory", "endpoint", "ip", "minimum"})
_MAPS = frozenset({"storage", "gpu", "owners"})
_KEYS = _AMOUNTS | _MAPS | {"per", "precision"}


@dataclass(frozen=True, slots=True)
class PriceTable:
    """USD per month, or per block: of a CPU thread, a GiB of memory or of a storage class, an endpoint, a leased IP,
    and a card by `model[.ram][.interface]`. A class or card that is not in the table has no price. `owners`: tenant →
    factor of the price.
    """

    cpu: Decimal = Decimal(0)
    memory: Decimal = Decimal(0)
    storage: Mapping[str, Decimal] = field(default_factory=dict)
    endpoint: Decimal = Decimal(0)
    ip: Decimal = Decimal(0)
    gpu: Mapping[str, Decimal] = field(default_factory=dict)
    owners: Mapping[str, Decimal] = field(default_factory=dict)
    minimum: Decimal = Decimal(0)
    per: str = "month"
    precision: int = 6


def load_price_table(path: Path) -> PriceTable:
    """The table in a file. Raises `SettingsError` with file, line and column of the first mistake."""
    try:
        with path.open("rb") as file:
            data = file.read(_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"LESSOR_PRICE_TABLE={path}: {error.strerror}") from error
    if len(data) > _BYTES:
        raise SettingsError(f"LESSOR_PRICE_TABLE={path}: larger than 128 KiB")
    try:
        return parse_price_table(data.decode("utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise SettingsError(f"LESSOR_PRICE_TABLE={path}: not UTF-8 at byte {error.start}") from error


def parse_price_table(text: str, name: str) -> PriceTable:
    """The table in `text`. `name` is the name of the file in errors."""
    try:
        _not_too_deep(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise SettingsError(f"{name}{place}: not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"{name}: not YAML: {str(error)[:200]}") from error
    if root is None:
        raise SettingsError(f"{name}:1:1: the price table is empty")
    reader = _Reader(name)
    values = {key: reader.value(key, node, at) for key, (at, node) in reader.mapping(root).items()}
    table = PriceTable(**values)  # type: ignore[arg-type]
    parts = (table.cpu, table.memory, table.endpoint, table.ip, table.minimum)
    if not any((*parts, *table.storage.values(), *table.gpu.values())):
        raise SettingsError(f"{name}:1:1: no price in the table is above 0")
    return table


def _not_too_deep(text: str) -> None:
    """Refuses deep nesting: composing a million nested brackets would crash the program, or take seconds."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise yaml.MarkedYAMLError(problem=f"more than {_DEEPEST} levels", problem_mark=event.start_mark)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _Reader:
    name: str

    def refuse(self, node: yaml.Node, problem: str) -> SettingsError:
        mark = node.start_mark
        return SettingsError(f"{self.name}:{mark.line + 1}:{mark.column + 1}: {problem}")

    def mapping(self, node: yaml.Node) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Key → (node of the key, node of the value). A key must not be given twice."""
        if not isinstance(node, yaml.MappingNode):
            raise self.refuse(node, "expected names with values")
        found: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or not key.value:
                raise self.refuse(key, "expected a name")
            if key.value in found:
                raise self.refuse(key, f"{key.value[:80]} is given twice")
            found[key.value] = (key, value)
        return found

    def value(self, key: str, node: yaml.Node, at: yaml.Node) -> object:
        if key not in _KEYS:
            raise self.refuse(at, f"{key[:80]} is not a key of a price table; the keys are {', '.join(sorted(_KEYS))}")
        if key in _MAPS:
            return {name: self._item(key, name, item, at) for name, (at, item) in self.mapping(node).items()}
        if key in _AMOUNTS:
            return self.amount(node)
        text = self.text(node)
        if key == "per":
            if text not in ("month", "block"):
                raise self.refuse(node, f"{text[:80]!r} is neither month nor block")
            return text
        if text not in {str(number) for number in range(19)}:
            raise self.refuse(node, f"{text[:80]!r} is not a number of decimals from 0 to 18")
        return int(text)

    def _item(self, key: str, name: str, node: yaml.Node, at: yaml.Node) -> Decimal:
        if key == "owners" and not _TENANT.fullmatch(name):
            raise self.refuse(at, f"{name[:80]!r} is not an akash address (akash1…)")
        if key == "gpu" and name == "*" and self.text(node) == "highest":
            return HIGHEST
        return self.amount(node)

    def text(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self.refuse(node, "expected a single value")
        return str(node.value).strip()

    def amount(self, node: yaml.Node) -> Decimal:
        text = self.text(node)
        if not _NUMBER.fullmatch(text):
            raise self.refuse(node, f"{text[:80]!r} is not a decimal number")
        number = Decimal(text)
        if not 0 <= number <= _LARGEST or number.as_tuple().exponent < -24:  # type: ignore[operator]
            raise self.refuse(node, f"{text[:80]!r} must be from 0 to 10^12 with at most 24 decimals")
        return number
