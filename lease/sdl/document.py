"""YAML text to nodes that keep the text and the place of every scalar, within limits that stop a hostile document.

Ordinary documents go through libyaml's composer. A document that is long or deeply nested, or that the composer
refuses, is composed again from events, iteratively and with counters: no recursion follows a tenant's nesting.
"""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, Any, NoReturn

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from lease.errors import Finding, SdlInvalid

if TYPE_CHECKING:

    class CParser:
        def __init__(self, stream: str) -> None: ...
        def check_node(self) -> bool: ...
        def get_node(self) -> Node | None: ...
        def get_event(self) -> Any: ...
        def check_event(self, *kinds: type) -> bool: ...

else:
    from yaml.cyaml import CParser

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_NODES", "compose", "source_lines"]

MAX_BYTES = 1024 * 1024
MAX_NODES = 50_000
"""A service has about fifty nodes; a deployment's groups must fit into one transaction."""
MAX_DEPTH = 64
"""The SDL's own grammar nests eleven levels."""

_SMALL = 64 * 1024
_FEW_BRACKETS = 200
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_LONG_INDICATOR_RUN = re.compile(r"(?:[-?:][ \t]+){16,}")


class _Parser(CParser):
    """libyaml without Python's own resolution of types: an untagged scalar keeps the empty tag."""

    def resolve(self, _kind: type, _value: str | None, _implicit: object) -> str:
        return ""

    def descend_resolver(self, _parent: object, _index: object) -> None: ...

    def ascend_resolver(self) -> None: ...


def compose(text: str | bytes, *, file: str) -> Node | None:
    """The first document's root; None when the stream is empty. Raises `SdlInvalid` for text that is not YAML or
    exceeds a limit.
    """
    source = _decoded(text, file)
    try:
        if _harmless(source):
            try:
                parser = _Parser(source)
                return parser.get_node() if parser.check_node() else None
            except yaml.composer.ComposerError:
                pass  # an anchor defined twice is fine in Go; anything else is found again below
        return _compose_counted(_Parser(source), file)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        _refuse(file, mark, f"not YAML: {error.problem or error.context}")
    except yaml.reader.ReaderError as error:
        before = source.encode()[: error.position].decode(errors="ignore")  # libyaml counts bytes
        raise SdlInvalid([Finding(file, *_place_after(before), "", f"not YAML: {error.reason}")]) from None


def source_lines(text: bytes) -> list[str]:
    """The lines of a document as findings count them; [] for content that is no text."""
    try:
        return _LINE_BREAK.split(_unicode(text)) if b"\0" not in text[2:] or _is_utf16(text) else []
    except UnicodeError:
        return []


def _place_after(before: str) -> tuple[int, int]:
    """Line and column, from 1, of the text behind this part of a document."""
    lines = _LINE_BREAK.split(before)
    return len(lines), len(lines[-1]) + 1


def _is_utf16(text: bytes) -> bool:
    return text[:2] in (b"\xff\xfe", b"\xfe\xff")


def _unicode(text: str | bytes) -> str:
    if isinstance(text, str):
        text.encode()
        return text.removeprefix("\ufeff")
    return text.decode("utf-16" if _is_utf16(text) else "utf-8-sig")


def _decoded(text: str | bytes, file: str) -> str:
    if len(text) > MAX_BYTES:
        _refuse(
            file, None, "the document is too large", found=f"{len(text)} bytes", allowed=f"at most {MAX_BYTES} bytes"
        )
    try:
        return _unicode(text)
    except UnicodeError as error:
        counted = text if isinstance(text, str) else text.removeprefix(codecs.BOM_UTF8)  # as the codec counts
        good = counted[: getattr(error, "start", 0)]
        before = good if isinstance(good, str) else good.decode("utf-16" if _is_utf16(good) else "utf-8", "ignore")
        message = f"the document is not Unicode text: {getattr(error, 'reason', str(error))}"
        raise SdlInvalid([Finding(file, *_place_after(before), "", message)]) from None


def _harmless(source: str) -> bool:
    """Whether the composer's recursion is bounded: indentation nests at most with the square root of the length."""
    brackets = source.count("[") + source.count("{")
    return len(source) <= _SMALL and brackets <= _FEW_BRACKETS and not _LONG_INDICATOR_RUN.search(source)


def _refuse(file: str, mark: Any, message: str, *, found: str = "", allowed: str = "") -> NoReturn:
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
    raise SdlInvalid([Finding(file, line, column, "", message, found, allowed)]) from None


def _compose_counted(parser: _Parser, file: str) -> Node | None:
    """Events to nodes with a stack of open collections; stops at the limits."""
    anchors: dict[str, Node | None] = {}
    open_nodes: list[tuple[Node, list[Node], str | None]] = []
    count = 0
    for _ in range(2):
        parser.get_event()  # stream start, document start
    while True:
        if not parser.check_event():
            return None
        event = parser.get_event()
        if isinstance(event, DocumentEndEvent):
            return None
        count += not isinstance(event, CollectionEndEvent)
        if count > MAX_NODES or len(open_nodes) > MAX_DEPTH:
            _refuse(file, event.start_mark, f"more than {MAX_NODES} values, or nested deeper than {MAX_DEPTH}")
        if isinstance(event, MappingStartEvent | SequenceStartEvent):
            open_nodes.append(_opened(event, anchors))
            continue
        node = _closed(open_nodes, anchors) if isinstance(event, CollectionEndEvent) else _leaf(event, anchors, file)
        if not open_nodes:
            return node
        open_nodes[-1][1].append(node)


def _opened(event: Any, anchors: dict[str, Node | None]) -> tuple[Node, list[Node], str | None]:
    """Open a collection; its anchor names nothing until the collection ends, so that it cannot contain itself."""
    kind = MappingNode if isinstance(event, MappingStartEvent) else SequenceNode
    if event.anchor is not None:
        anchors[event.anchor] = None
    return kind(event.tag or "", [], event.start_mark, event.end_mark, event.flow_style), [], event.anchor


def _closed(open_nodes: list[tuple[Node, list[Node], str | None]], anchors: dict[str, Node | None]) -> Node:
    node, children, anchor = open_nodes.pop()
    node.value = list(zip(children[::2], children[1::2], strict=True)) if isinstance(node, MappingNode) else children
    if anchor is not None:
        anchors[anchor] = node
    return node


def _leaf(event: Any, anchors: dict[str, Node | None], file: str) -> Node:
    mark: Any = event.start_mark
    if isinstance(event, AliasEvent):
        target = anchors.get(str(event.anchor))
        if target is None:
            why = "contains itself" if event.anchor in anchors else "is not defined"
            _refuse(file, mark, f"alias *{event.anchor} {why}")
        return target
    if not isinstance(event, ScalarEvent):
        _refuse(file, mark, "unexpected end of the document")
    end: Any = event.end_mark
    node = ScalarNode(event.tag or "", event.value, mark, end, style=event.style or "")
    if event.anchor is not None:
        anchors[event.anchor] = node
    return node
