"""The configuration of the inventory operator: the storage classes that are offered, and what is excluded (operators.md
§2.8).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from provider.errors import SettingsError

__all__ = ["DEFAULT", "InventoryConfig", "StorageRule", "parse_config"]

_VERSION = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)
_FIELDS = {
    "": ("version", "cluster_storage", "exclude"),
    "exclude": ("nodes", "node_storage"),
    "exclude.node_storage[]": ("node_filter", "classes"),
}


@dataclass(frozen=True, slots=True)
class StorageRule:
    """`classes` are withheld on nodes whose name has a match of `node_filter`."""

    node_filter: re.Pattern[str]
    classes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InventoryConfig:
    """`cluster_storage`: the classes that are offered, sorted; None offers every managed class of the cluster."""

    version: str = "1.0.0"
    cluster_storage: tuple[str, ...] | None = None
    excluded_nodes: tuple[re.Pattern[str], ...] = ()
    rules: tuple[StorageRule, ...] = ()

    def excludes(self, node: str) -> bool:
        """Whether a rule excludes the node. A pattern matches anywhere in the name."""
        return any(pattern.search(node) for pattern in self.excluded_nodes)

    def available(self, classes: Iterable[str]) -> InventoryConfig:
        """This configuration with the classes that exist in the cluster only. Every rule stays."""
        exist = set(classes)
        offered = tuple(sorted(exist if self.cluster_storage is None else exist.intersection(self.cluster_storage)))
        rules = (replace(rule, classes=tuple(one for one in rule.classes if one in exist)) for rule in self.rules)
        return replace(self, cluster_storage=offered, rules=tuple(rules))

    def classes_of(self, node: str) -> tuple[str, ...]:
        """The offered classes without those that a matching rule withholds on the node."""
        withheld = {one for rule in self.rules if rule.node_filter.search(node) for one in rule.classes}
        return tuple(one for one in self.cluster_storage or () if one not in withheld)


DEFAULT = InventoryConfig()
"""Without a configuration every managed class of the cluster is offered on every node."""


def parse_config(text: str) -> InventoryConfig:
    """The configuration of a YAML document. Raises `SettingsError` that names the key and the value.

    A version may be missing. A class that a rule withholds must be in `cluster_storage`.
    """
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SettingsError(f"inventory configuration: not YAML: {error}") from error
    whole = _mapping(document, "")
    exclude = _mapping(whole.get("exclude"), "exclude")
    classes = tuple(sorted(_texts(whole.get("cluster_storage"), "cluster_storage")))
    return InventoryConfig(
        version=_version(whole.get("version")),
        cluster_storage=classes,
        excluded_nodes=tuple(_pattern(one, "exclude.nodes") for one in _texts(exclude.get("nodes"), "exclude.nodes")),
        rules=tuple(_rule(one, classes) for one in _list(exclude.get("node_storage"), "exclude.node_storage")),
    )


def _rule(value: object, offered: Sequence[str]) -> StorageRule:
    place = "exclude.node_storage[]"
    rule = _mapping(value, place)
    if "node_filter" not in rule:
        raise _wrong(f"{place}.node_filter", "is missing; every rule needs one")
    classes = tuple(sorted(_texts(rule.get("classes"), f"{place}.classes")))
    for name in classes:
        if name not in offered:
            raise _wrong(f"{place}.classes", f"{name!r} is not listed in cluster_storage")
    return StorageRule(_pattern(rule["node_filter"], f"{place}.node_filter"), classes)


def _version(value: object) -> str:
    if value is None:
        return "1.0.0"
    match = _VERSION.fullmatch(str(value).strip())
    if match is None:
        raise _wrong("version", f"invalid version {value!r}; write v1")
    return ".".join(str(int(part or 0)) for part in match.groups())


def _pattern(value: object, place: str) -> re.Pattern[str]:
    if not isinstance(value, str) or not value:
        raise _wrong(place, f"{value!r} is not a pattern; write a regular expression such as ^gpu-")
    try:
        return re.compile(value)
    except re.error as error:
        raise _wrong(place, f"{value!r} is not a regular expression: {error}") from error


def _mapping(value: object, place: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(place, f"{str(value)[:60]!r} is not a mapping")
    for name in value:
        if name not in _FIELDS[place]:
            raise _wrong(place, f"unexpected field {name!r}; known: {', '.join(_FIELDS[place])}")
    return value


def _list(value: object, place: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _wrong(place, f"{str(value)[:60]!r} is not a list")
    return value


def _texts(value: object, place: str) -> list[str]:
    found = _list(value, place)
    for one in found:
        if not isinstance(one, str):
            raise _wrong(place, f"{one!r} is not a text")
    return found


def _wrong(place: str, problem: str) -> SettingsError:
    return SettingsError(f"inventory configuration: {place or 'document'}: {problem}")
