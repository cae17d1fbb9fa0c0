"""Findings with places, from problems at nodes, in the order in which they are reported."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from lease.errors import Finding

__all__ = ["Problem", "placed", "shown"]

_LONGEST = 400
"""The most characters of a tenant's text, or of a list of names, that one finding repeats."""


class Problem(NamedTuple):
    """`rank` 0 ends Go's decoding at once, 1 is collected while decoding goes on, 2 is one that Go would not reach."""

    node: Node
    message: str
    found: str
    allowed: str
    suffix: str
    rank: int = 0


def placed(problems: Sequence[Problem], root: Node, *, file: str, decoding: bool) -> list[Finding]:
    """Each finding once, in the order in which they were noted. While `decoding`, in the order of their places, except
    that the first is the one that Go's decoder would report.
    """
    paths = _paths(root)
    ranked = [(_finding(item, paths, file), item.rank) for item in problems]
    if decoding:
        ranked.sort(key=lambda pair: (pair[0].line, pair[0].column))
        first = _reported_by_go(ranked)
        ranked.remove(first)
        ranked.insert(0, first)
    return list(dict.fromkeys(finding for finding, _ in ranked))


def shown(node: Node) -> str:
    """The content of a node, short enough for a finding."""
    if type(node) is ScalarNode:
        text = _cut(node.value, 60)
        return f'"{text}"' if node.style in ("'", '"') or not text.strip() else text
    return "a mapping" if type(node) is MappingNode else "a list"


def _finding(item: Problem, paths: dict[int, str], file: str) -> Finding:
    path = paths.get(id(item.node), "")
    path = f"{path}.{item.suffix}".strip(".") if item.suffix else path
    mark = item.node.start_mark
    texts = (_cut(text, _LONGEST) for text in (path, item.message, item.found, item.allowed))
    return Finding(file, mark.line + 1, mark.column + 1, *texts)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _reported_by_go(ranked: list[tuple[Finding, int]]) -> tuple[Finding, int]:
    """Go decodes one section after the other. In the first section with problems, one that ends the decoding comes
    before those that are collected, and a mapping with a repeated key is not read further.
    """
    section = re.split(r"[.\[]", ranked[0][0].path)[0]
    same = [pair for pair in ranked if re.split(r"[.\[]", pair[0].path)[0] == section]
    skipped = [f"{item.path.rpartition('.')[0]}." for item, _ in same if item.message.startswith("mapping key ")]
    reached = [
        pair
        for pair in same
        if pair[0].message.startswith("mapping key ") or not any(pair[0].path.startswith(path) for path in skipped)
    ]
    return min(reached or same, key=lambda pair: pair[1])


def _children(node: Node, path: str) -> Iterator[tuple[Node, str]]:
    if type(node) is MappingNode:
        for key, value in node.value:
            if type(key) is ScalarNode:
                name = f"{path}.{_cut(key.value, 60)}" if path else _cut(key.value, 60)
                yield key, name
                yield value, name
    elif type(node) is SequenceNode:
        for index, item in enumerate(node.value):
            yield item, f"{path}[{index}]"


def _paths(root: Node) -> dict[int, str]:
    """The path of every node in the document, by identity; of an aliased node, the path at its anchor."""
    paths = {id(root): ""}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        for child, path in _children(node, paths[id(node)]):
            if id(child) not in paths:
                paths[id(child)] = path
                waiting.append(child)
    return paths
