"""Explicit tags of scalars as Go's yaml.v3 reads them: what a text is without a tag, and whether a tag fits it
(sdl-and-manifest.md §1.2).
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import datetime

from yaml.nodes import ScalarNode

__all__ = ["FALSE", "FLOAT", "INTEGER", "NULLS", "TRUE", "is_merge_key", "is_untyped", "tag_problem", "tagged_text"]

NULLS = frozenset(("", "~", "null", "Null", "NULL"))
TRUE = frozenset(("true", "True", "TRUE"))
FALSE = frozenset(("false", "False", "FALSE"))
INTEGER = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")

_PREFIX = "tag:yaml.org,2002:"
_CHECKED = frozenset(("int", "float", "bool", "null", "timestamp"))
_NAMED_FLOATS = frozenset(f"{sign}.{name}" for sign in ("", "+", "-") for name in ("inf", "Inf", "INF")) | frozenset(
    (".nan", ".NaN", ".NAN")
)
_LONGEST_INTEGER = 67
"""A 64-bit number in binary, with sign and prefix."""
_TIMESTAMP = re.compile(
    r"(\d{4}-\d{1,2}-\d{1,2})"
    r"(?:[Tt](\d{1,2}:\d{1,2}:\d{1,2})(?:\.\d+)?(?:Z|[-+]\d\d:\d\d)| (\d{1,2}:\d{1,2}:\d{1,2})(?:\.\d+)?)?",
    re.ASCII,
)


def is_untyped(node: ScalarNode) -> bool:
    """Whether the node has no tag, or `!`, which says nothing either."""
    return not node.tag or node.tag == "!"


def is_merge_key(key: ScalarNode) -> bool:
    if key.value != "<<":
        return False
    return not key.style if is_untyped(key) else bool(key.tag == _PREFIX + "merge")


def tag_problem(node: ScalarNode) -> str:
    """Why Go cannot decode this scalar with its tag; empty when it can, as with tags that Go does not know."""
    tag = str(node.tag)
    name = tag.removeprefix(_PREFIX)
    if tag == _PREFIX + "binary":
        return "" if _decoded(node.value) is not None else "!!binary value contains invalid base64 data"
    if name == tag or name not in _CHECKED:
        return ""
    kind = "timestamp" if name == "timestamp" and _is_timestamp(node.value) else _kind(node.value)
    if kind == name or (kind, name) == ("int", "float"):
        return ""
    return f"cannot decode !!{kind} `{node.value[:60]}` as a !!{name}"


def tagged_text(node: ScalarNode) -> str:
    """The text of a scalar whose tag has no problem: `!!binary` is decoded."""
    text: str = node.value
    return _decoded(text) or "" if node.tag == _PREFIX + "binary" else text


def _kind(text: str) -> str:
    """The tag of a plain scalar with this text, where none is written; dates count as text."""
    if text in NULLS:
        return "null"
    if text in TRUE or text in FALSE:
        return "bool"
    if text in _NAMED_FLOATS:
        return "float"
    plain = text if text[:1] == "." else text.replace("_", "")
    if text[:1] not in "+-.0123456789":
        return "str"
    if _is_integer(plain):
        return "int"
    return "float" if FLOAT.fullmatch(plain) and len(plain) < 400 and abs(float(plain)) != float("inf") else "str"


def _is_integer(text: str) -> bool:
    match = INTEGER.fullmatch(text) if len(text) <= _LONGEST_INTEGER else None
    if match is None:
        return False
    digits = match[2]
    octal = digits[0] == "0" and digits.isdigit() and len(digits) > 1
    value = int(match[1] + digits, 8 if octal else 0)
    return -(2**63) <= value < (2**63 if match[1] else 2**64)


def _is_timestamp(text: str) -> bool:
    match = _TIMESTAMP.fullmatch(text[:100])
    if match is None or len(text) > 100:
        return False
    try:
        datetime.strptime(f"{match[1]} {match[2] or match[3] or '0:0:0'}", "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return False
    return True


def _decoded(text: str) -> str | None:
    """The text in base64; None when it is not. Bytes that are no UTF-8 become U+FFFD, as in Go's JSON."""
    try:
        data = base64.b64decode(re.sub(r"[\r\n]", "", text).encode(), validate=True)
    except (ValueError, binascii.Error):
        return None
    return "".join("\ufffd" if "\udc80" <= char <= "\udcff" else char for char in data.decode(errors="surrogateescape"))
