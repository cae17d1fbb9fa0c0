"""Settings files: what a TOML or YAML file says, as texts by key, and every mistake in it.

A file is read within limits, whoever wrote it: at most 256 KiB, a regular file, UTF-8 without NUL, few levels deep. In
YAML no key may stand twice, and anchors and aliases are refused, since an alias multiplies what it names.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["FileContent", "Item", "read_file"]

_MAX_BYTES = 256 * 1024
_MAX_DEPTH = 16
_MAX_NODES = 20_000
_SCALARS = (str, int, float, bool)


@dataclass(frozen=True, slots=True)
class Item:
    """One setting of a file. `key`: the names of its levels, joined by dots. `where`: ` (line 7)`, or nothing."""

    key: str
    value: str
    where: str = ""


@dataclass(slots=True)
class FileContent:
    """`top`: the keys of the uppermost level. A file with problems may have items too."""

    items: list[Item] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_file(path: Path, *, skip: frozenset[str] = frozenset()) -> FileContent:
    """The items of the file. What lies below a key of `skip` on the uppermost level is not read. Raises nothing: a file
    that cannot be read is a problem.
    """
    content = FileContent()
    try:
        text = _text(path)
        reader = _toml_items if path.suffix == ".toml" else _yaml_items
        for item in reader(text, content.problems, skip):
            content.items.append(item)
    except OSError as error:
        content.problems.append(f"it cannot be read: {error.strerror}")
    except RecursionError:
        content.problems.append(f"it is deeper than {_MAX_DEPTH} levels")
    except ValueError as error:
        content.problems.append(" ".join(str(error).split())[:300])
    return content


def _text(path: Path) -> str:
    """Raises OSError, and ValueError for what is no text."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO would block
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is no regular file")
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ValueError(f"it is larger than {_MAX_BYTES // 1024} KiB")
    if b"\0" in data:
        raise ValueError("it holds a NUL byte")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 at byte {error.start}") from None


def _toml_items(text: str, problems: list[str], skip: frozenset[str]) -> Iterator[Item]:
    import tomllib  # noqa: PLC0415  few homes have a file

    document = tomllib.loads(text, parse_float=str)
    yield from _flat({key: value for key, value in document.items() if key.lower() not in skip}, problems)


def _flat(table: dict[str, Any], problems: list[str], *path: str) -> Iterator[Item]:
    if len(path) > _MAX_DEPTH:
        raise RecursionError
    for key, value in table.items():
        name = ".".join((*path, key))
        if isinstance(value, dict):
            yield from _flat(value, problems, *path, key)
        elif isinstance(value, list) and all(isinstance(each, _SCALARS) for each in value):
            yield Item(name, ",".join(map(_scalar, value)))
        elif isinstance(value, _SCALARS):
            yield Item(name, _scalar(value))
        else:
            problems.append(f"{name} must be a text, a number, true or false, or a list of them")


def _scalar(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _yaml_items(text: str, problems: list[str], skip: frozenset[str]) -> Iterator[Item]:
    import yaml  # noqa: PLC0415

    try:
        _count_yaml(text)
        documents = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:  # its whole text quotes the line, which may hold a secret
        where = f" (line {error.problem_mark.line + 1})" if error.problem_mark else ""
        raise ValueError(f"it is no YAML: {error.problem}{where}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"it is no YAML: {type(error).__name__}") from None
    if len(documents) > 1:
        raise ValueError("it holds more than one document")
    if documents and documents[0] is not None:
        yield from _mapping(documents[0], problems, skip)


def _count_yaml(text: str) -> None:
    """Raise ValueError for an alias, and for too many or too deep nodes, before anything is built of them."""
    import yaml  # noqa: PLC0415

    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=yaml.SafeLoader)):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError(f"it has the alias {event.anchor!r}; write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise RecursionError
        if count > _MAX_NODES:
            raise ValueError(f"it has more than {_MAX_NODES} values")


def _mapping(node: Any, problems: list[str], skip: frozenset[str], *path: str) -> Iterator[Item]:
    if node.id != "mapping":
        problems.append("it must be a mapping of settings: `key: value`")
        return
    seen: set[str] = set()
    for key, value in node.value:
        line = f" (line {key.start_mark.line + 1})"
        if key.id != "scalar":
            problems.append(f"a key must be a text{line}")
            continue
        name = ".".join((*path, key.value))
        if name in seen:
            problems.append(f"{name} stands twice{line}")
        seen.add(name)
        if path or key.value.lower() not in skip:
            yield from _value(value, problems, line, *path, key.value)


def _value(node: Any, problems: list[str], line: str, *path: str) -> Iterator[Item]:
    name = ".".join(path)
    if node.id == "mapping":
        yield from _mapping(node, problems, frozenset(), *path)
    elif node.id == "scalar":
        yield Item(name, "" if node.tag.endswith(":null") else node.value, line)
    elif all(each.id == "scalar" for each in node.value):
        yield Item(name, ",".join(each.value for each in node.value), line)
    else:
        problems.append(f"{name} must be a text, a number, true or false, or a list of them{line}")
