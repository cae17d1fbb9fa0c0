"""Typed values from nodes by the rules of Go's yaml.v3, with every problem collected (sdl-and-manifest.md §1.2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import TypeVar

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from lease.errors import SdlInvalid
from lease.sdl.findings import Problem, placed, shown
from lease.sdl.tags import FALSE, FLOAT, INTEGER, NULLS, TRUE, is_merge_key, is_untyped, tag_problem, tagged_text

__all__ = ["MAX_VISITS", "Reader", "is_null", "parse_uint32"]

MAX_VISITS = 100_000
"""The most values with every alias expanded, which stops a "billion laughs" document."""

MAX_FINDINGS = 1_000
"""The most findings that are reported."""

_OLD_TRUE = frozenset(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"))
_OLD_FALSE = frozenset(("n", "N", "no", "No", "NO", "off", "Off", "OFF"))
_NULL_TAG = "tag:yaml.org,2002:null"
_TYPED_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float", "tag:yaml.org,2002:bool", _NULL_TAG)
_DECIMAL = re.compile(r"[1-9][0-9]{0,9}|0")
_UINT32 = 2**32 - 1
_UINT32_ALLOWED = f"a whole number from 0 to {_UINT32}, not quoted"

T = TypeVar("T")


def _plain(node: ScalarNode) -> bool:
    """Whether the scalar's type comes from its text: neither quoted nor tagged as text."""
    if is_untyped(node):
        return not node.style
    return node.tag in _TYPED_TAGS


def is_null(node: Node | None) -> bool:
    """Whether the node is absent, or one of YAML's spellings of null."""
    if node is None or type(node) is not ScalarNode or node.value not in NULLS:
        return node is None
    return not node.style if is_untyped(node) else bool(node.tag == _NULL_TAG)


def parse_uint32(text: str) -> int | None:
    """A plain scalar as Go resolves it for an unsigned field; floats are cut off, None when it does not fit."""
    text = text.replace("_", "") if text[:1] in "+-.0123456789" else text
    if len(text) > 40:
        return None
    match = INTEGER.fullmatch(text)
    if match:
        digits = match[2]
        base = 8 if digits[0] == "0" and len(digits) > 1 and digits[1].isdigit() else 0
        value = int(match[1] + digits, base)
    elif FLOAT.fullmatch(text):
        number = float(text)
        value = int(number) if abs(number) < 2**63 else -1
    else:
        return None
    return value if 0 <= value <= _UINT32 else None


class Reader:
    """One document while it is read. Every reading method returns a usable value even after a problem, so that all
    problems are found.
    """

    __slots__ = ("_key_lines", "_problems", "_visits", "file", "root")

    def __init__(self, root: Node, *, file: str) -> None:
        self.root = root
        self.file = file
        self._problems: list[Problem] = []
        self._visits = 0
        self._key_lines: tuple[Node | None, dict[str, int]] = None, {}

    def problem(
        self, node: Node, message: str, *, found: str | None = None, allowed: str = "", suffix: str = ""
    ) -> None:
        """Note a problem at `node`; `suffix` names a part of the node that is absent."""
        if len(self._problems) >= MAX_FINDINGS:
            return
        if found is None:
            found = shown(node) if not suffix else ""
        self._problems.append(Problem(node, message, found, allowed, suffix))

    def mismatch(self, node: Node, message: str, *, allowed: str = "") -> None:
        """Note a value of the wrong kind. Go collects these, and reports them only if nothing worse follows."""
        if len(self._problems) < MAX_FINDINGS:
            self._problems.append(Problem(node, message, shown(node), allowed, "", 1))

    def raw_text(self, node: Node) -> str:
        """The text of a value for Go's own unmarshallers, which see no tag but `!!null`; "" for a mapping or a list."""
        if type(node) is not ScalarNode:
            return ""
        if node.tag == _NULL_TAG and (problem := tag_problem(node)):
            self.problem(node, problem)
        text: str = node.value
        return text

    def _scalar(self, node: ScalarNode) -> str | None:
        """The text of a scalar that Go decodes; None when its tag does not fit the text, which ends Go's decoding."""
        if is_untyped(node):
            text: str = node.value
            return text
        if problem := tag_problem(node):
            self.problem(node, problem)
            return None
        return tagged_text(node)

    def _not_a(self, node: Node, kind: str) -> None:
        """Note that a node, null apart, is no mapping or no list."""
        if type(node) is ScalarNode and self._scalar(node) is None:
            return
        if not is_null(node):
            self.mismatch(node, f"must be a {kind}")

    @property
    def noted(self) -> int:
        """The number of problems so far, for callers that check whether a part of the document has any."""
        return len(self._problems)

    def out_of_reach(self, since: int) -> None:
        """Go stops reading a part at its first problem, so a problem noted from number `since` on is never its
        first.
        """
        self._problems[since:] = [item._replace(rank=2) for item in self._problems[since:]]

    def check(self, *, decoding: bool = False) -> None:
        """Raise `SdlInvalid` with all problems noted so far, if there are any. While `decoding` they are in the order
        of their places, except that the first is the one that Go's decoder would report.
        """
        if not self._problems:
            return
        raise SdlInvalid(placed(self._problems, self.root, file=self.file, decoding=decoding))

    def _count(self, node: Node, amount: int) -> None:
        self._visits += amount
        if self._visits > MAX_VISITS:
            self._problems.clear()
            self.problem(node, f"more than {MAX_VISITS} values once aliases are expanded", found="")
            self.check()

    def entries(self, node: Node | None) -> dict[str, Node]:
        """The members of a mapping by name, merge keys applied; {} for null. A member with a null key is dropped.
        Duplicate keys and other kinds are problems.
        """
        if type(node) is not MappingNode:
            if node is not None:
                self._not_a(node, "mapping")
            return {}
        self._count(node, len(node.value))
        found: dict[str, Node] = {}
        merged: Node | None = None
        nulls: set[str] = set()
        for key, value in node.value:
            if type(key) is not ScalarNode:
                self.mismatch(key, "a key must be text")
                continue
            name = self._scalar(key)
            if name is None:
                continue
            if is_null(key):
                if name in nulls:
                    self._repeated(node, key)
                nulls.add(name)
            elif name in found or (merged is not None and is_merge_key(key)):
                self._repeated(node, key)
            elif is_merge_key(key):
                merged = value
            else:
                found[name] = value
        if merged is not None:
            self._merge(found, merged, [node])
        return found

    def _repeated(self, node: Node, key: Node) -> None:
        if self._key_lines[0] is not node:
            self._key_lines = (
                node,
                {
                    other.value: other.start_mark.line + 1
                    for other, _ in reversed(node.value)
                    if type(other) is ScalarNode
                },
            )
        self.mismatch(key, f'mapping key "{key.value}" already defined at line {self._key_lines[1][key.value]}')

    def _merge(self, found: dict[str, Node], source: Node, seen: list[Node], *, in_list: bool = False) -> None:
        """Add the members of `source` (a mapping, or a list of mappings of which earlier ones win) that `found`
        lacks.
        """
        self._count(source, 1)
        if any(source is item for item in seen) or len(seen) > 50:
            self.problem(source, "a merge key leads back to itself", found="")
        elif type(source) is SequenceNode and not in_list:
            for item in source.value:
                self._merge(found, item, [*seen, source], in_list=True)
        elif type(source) is MappingNode:
            self._count(source, len(source.value))
            inner = [value for key, value in source.value if type(key) is ScalarNode and is_merge_key(key)]
            for key, value in source.value:
                if type(key) is ScalarNode and not is_merge_key(key) and not is_null(key):
                    found.setdefault(self._scalar(key) or "", value)
            for value in inner:
                self._merge(found, value, [*seen, source])
        else:
            self.problem(source, "map merge requires map or sequence of maps as the value")

    def strict(self, node: Node | None, allowed: Collection[str], refusal: str) -> dict[str, Node]:
        """As `entries`, for places where Go refuses unknown keys, merge keys among them. `refusal` is its text for one,
        with {} for the key.
        """
        if type(node) is not MappingNode:
            return self.entries(node)
        self._count(node, len(node.value))
        found: dict[str, Node] = {}
        for key, value in node.value:
            name = key.value
            if type(key) is not ScalarNode or name not in allowed:
                self.problem(key, refusal.format(shown(key)), allowed=", ".join(allowed))
            elif name in found:
                self._repeated(node, key)
            else:
                found[name] = value
        return found

    def items(self, node: Node | None) -> list[Node] | None:
        """The elements of a sequence; None for null."""
        if type(node) is SequenceNode:
            self._count(node, len(node.value))
            value: list[Node] = node.value
            return value
        if node is not None:
            self._not_a(node, "list")
        return None

    def given(self, node: Node | None) -> list[Node]:
        """The elements of a sequence without null ones, which Go drops from a list of structures."""
        return [item for item in self.items(node) or () if not is_null(item)]

    def text(self, node: Node | None) -> str:
        """The scalar's own text, whatever type it looks like; "" for null."""
        if type(node) is ScalarNode:
            text = self._scalar(node)
            return "" if text is None or is_null(node) else text
        if node is not None:
            self.mismatch(node, "must be text")
        return ""

    def texts(self, node: Node | None) -> tuple[str, ...] | None:
        """A list of texts, null elements dropped; None for null, () for []."""
        if node is None:
            return None
        items = self.items(node)
        return None if items is None else tuple([self.text(item) for item in items if not is_null(item)])

    def uint32(self, node: Node | None) -> int:
        """0 for null."""
        if type(node) is ScalarNode and not is_untyped(node) and self._scalar(node) is None:
            return 0
        if type(node) is ScalarNode and _plain(node):
            text = node.value
            value = int(text) if _DECIMAL.fullmatch(text) else 0 if text in NULLS else parse_uint32(text)
            if value is not None and value <= _UINT32:
                return value
        if not is_null(node):
            self.mismatch(node, "must be a number", allowed=_UINT32_ALLOWED)  # type: ignore[arg-type]
        return 0

    def flag(self, node: Node | None) -> bool:
        """A boolean; False for null. The spellings of YAML 1.1 count even when quoted."""
        if type(node) is ScalarNode:
            text = self._scalar(node)
            if text in _OLD_TRUE or (text in TRUE and _plain(node)):
                return True
            if text is None or text in _OLD_FALSE or (text in FALSE and _plain(node)):
                return False
        if not is_null(node):
            self.mismatch(node, "must be a boolean", allowed="true or false, not quoted")  # type: ignore[arg-type]
        return False

    def mapping_of(self, node: Node | None, decode: Callable[[Reader, Node], T]) -> dict[str, T]:
        """A mapping of names to values of one kind."""
        return {name: decode(self, value) for name, value in self.entries(node).items()}
