"""Attribute matching of the market: globs, subsets and capabilities (bidding.md §3.1-3.2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from lease.resources import Attribute, Resources

__all__ = [
    "any_match",
    "attribute_keys_valid",
    "attribute_matches",
    "glob_match",
    "has_capabilities",
    "parse_bool",
    "subset",
]

KEY = re.compile(r"[a-zA-Z][\w/.\-]{1,126}[\w*]?", re.ASCII)
"""The form of an attribute key of a resource, for `fullmatch` (sdl-and-manifest.md §1.10)."""

_ANY = None
_Token = tuple[bool, tuple[tuple[str, str], ...]] | None
"""One character of a pattern: None for `?`, else (negated, ranges). A literal is one range from itself to itself."""


def _class_token(pattern: str, at: int) -> tuple[_Token, int] | None:
    """The class that starts behind `[` at `at`; None when it is malformed."""
    negated = pattern[at : at + 1] == "^"
    at += negated
    ranges: list[tuple[str, str]] = []
    while pattern[at : at + 1] != "]" or not ranges:
        low, at = _class_bound(pattern, at)
        high = low
        if pattern[at : at + 1] == "-":
            high, at = _class_bound(pattern, at + 1)
        if not low or not high:
            return None
        ranges.append((low, high))
    return (negated, tuple(ranges)), at + 1


def _class_bound(pattern: str, at: int) -> tuple[str, int]:
    """One end of a range; "" when none can stand here."""
    char = pattern[at : at + 1]
    if char in ("", "-", "]"):
        return "", at
    if char == "\\":
        return pattern[at + 1 : at + 2], at + 2
    return char, at + 1


@lru_cache(maxsize=4096)
def _chunks(pattern: str) -> tuple[tuple[_Token, ...], ...] | None:
    """The pattern cut at its stars; None when it is malformed, so that it matches nothing."""
    chunks: list[list[_Token]] = [[]]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*":
            chunks.append([])
        elif char == "?":
            chunks[-1].append(_ANY)
        elif char == "[":
            parsed = _class_token(pattern, at)
            if parsed is None:
                return None
            chunks[-1].append(parsed[0])
            at = parsed[1]
        else:
            if char == "\\":
                char = pattern[at : at + 1]
                at += 1
                if not char:
                    return None
            chunks[-1].append((False, ((char, char),)))
    return tuple(tuple(chunk) for chunk in chunks)


def _fits(chunk: Sequence[_Token], name: str, at: int) -> bool:
    """Whether `chunk` matches the characters of `name` that start at `at`."""
    if at < 0 or at + len(chunk) > len(name):
        return False
    for offset, token in enumerate(chunk):
        char = name[at + offset]
        if token is None:
            if char == "/":
                return False
        elif any(low <= char <= high for low, high in token[1]) == token[0]:
            return False
    return True


def glob_match(pattern: str, name: str) -> bool:
    r"""Whether `name` matches the pattern as a file path would: `*` and `?` never cross `/`, `[a-z]` and `[^a-z]` are
    classes, `\` escapes, a malformed pattern matches nothing.

    Each part between two stars takes the first place where it fits, so a hostile pattern costs at most pattern x name
    steps.
    """
    if not any(char in pattern for char in "*?[\\"):
        return pattern == name
    chunks = _chunks(pattern)
    if chunks is None or not _fits(chunks[0], name, 0):
        return False
    at = len(chunks[0])
    if len(chunks) == 1:
        return at == len(name)
    for chunk in chunks[1:-1]:
        while not _fits(chunk, name, at):
            if at >= len(name) or name[at] == "/":
                return False
            at += 1
        at += len(chunk)
    end = len(name) - len(chunks[-1])
    return end >= at and "/" not in name[at:end] and _fits(chunks[-1], name, end)


def attribute_matches(wanted: Attribute, offered: Attribute) -> bool:
    """Whether the offered attribute fits the wanted one. Only the wanted key is a pattern; values are equal as text."""
    return wanted.value == offered.value and glob_match(wanted.key, offered.key)


def subset(wanted: Iterable[Attribute], offered: Sequence[Attribute]) -> bool:
    """Whether some offered attribute matches each wanted one; True when nothing is wanted."""
    return all(any(attribute_matches(want, offer) for offer in offered) for want in wanted)


def any_match(wanted: Iterable[Attribute], offered: Sequence[Attribute]) -> bool:
    """Whether some offered attribute matches at least one wanted attribute; False when nothing is wanted."""
    return any(attribute_matches(want, offer) for want in wanted for offer in offered)


def parse_bool(text: str) -> bool | None:
    """True for 1 t T TRUE true True, False for 0 f F FALSE false False, None for anything else, which callers count as
    unset.
    """
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    return False if text in ("0", "f", "F", "FALSE", "false", "False") else None


def attribute_keys_valid(attributes: Sequence[Attribute]) -> str:
    """The problem with the keys of a resource's attributes; empty when they are well formed and unique."""
    for item in attributes:
        if not KEY.fullmatch(item.key):
            return f"attribute has invalid key {item.key!r}"
    if len({item.key for item in attributes}) != len(attributes):
        return "attributes cannot have duplicate keys"
    return ""


def _storage_groups(offered: Sequence[Attribute]) -> list[list[Attribute]]:
    groups: dict[str, list[Attribute]] = {}
    for item in offered:
        parts = item.key.split("/")
        if len(parts) == 4 and parts[:2] == ["capabilities", "storage"]:
            groups.setdefault(parts[2], []).append(Attribute(parts[3], item.value))
    return list(groups.values())


def has_capabilities(resources: Resources, offered: Sequence[Attribute]) -> bool:
    """Whether a provider's attributes promise the storage classes of a unit and one of the GPUs that it requests
    (bidding.md §3.2).
    """
    groups = _storage_groups(offered)
    for volume in resources.storage or ():
        if volume.attributes and not any(subset(volume.attributes, group) for group in groups):
            return False
    if not resources.gpu_units or not resources.gpu_attributes:
        return True
    prefix = "capabilities/gpu/"
    cards = [Attribute(item.key.removeprefix(prefix), item.value) for item in offered if item.key.startswith(prefix)]
    return any_match(resources.gpu_attributes, cards)
