"""Keys of an SDL that have no effect: Go ignores them without an error, so that a misspelt key is never noticed
(sdl-and-manifest.md §1.2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from lease.errors import Finding
from lease.sdl.document import compose
from lease.sdl.findings import shown

__all__ = ["unknown_keys"]

_ANY = "*"
"""The key of a grammar that holds names of the tenant's."""
_HTTP = dict.fromkeys(
    ("max_body_size", "read_timeout", "send_timeout", "next_tries", "next_timeout", "next_cases", "proxy_buffer_size")
)
_TO = {"service": None, "global": None, "ip": None, "http_options": _HTTP}
_EXPOSE = {**dict.fromkeys(("port", "as", "proto", "accept")), "to": _TO, "http_options": _HTTP}
_SERVICE = {
    **dict.fromkeys(("image", "command", "args", "env")),
    "expose": _EXPOSE,
    "dependencies": {"service": None},
    "params": {"storage": {_ANY: {"mount": None, "readOnly": None}}, "permissions": {"read": None}, "tee": None},
    "credentials": dict.fromkeys(("host", "email", "username", "password")),
}
_GPU = {"units": None, "attributes": {"vendor": {"nvidia": dict.fromkeys(("model", "ram", "interface"))}}}
_COMPUTE = {
    "cpu": {"units": None, "attributes": None},
    "memory": {"size": None},
    "storage": {"name": None, "size": None, "attributes": None},
    "gpu": _GPU,
}
_PLACEMENT = {
    "attributes": None,
    "signedBy": {"allOf": None, "anyOf": None},
    "pricing": {_ANY: {"denom": None, "amount": None}},
}
_SDL: Mapping[str, Any] = {
    "version": None,
    "include": None,
    "services": {_ANY: _SERVICE},
    "profiles": {"compute": {_ANY: {"resources": _COMPUTE}}, "placement": {_ANY: _PLACEMENT}},
    "deployment": {_ANY: {_ANY: {"profile": None, "count": None}}},
    "endpoints": {_ANY: {"kind": None}},
    "reclamation": {"min_window": None},
}
"""The keys that have an effect; None where a value has no keys, or where the reader refuses unknown ones itself."""


def unknown_keys(text: str | bytes, *, file: str) -> list[Finding]:
    """A finding for each key that has no effect, with the nearest known key, in the order of the document. `text` must
    be an SDL that `read_sdl` takes.
    """
    root = compose(text, file=file)
    found: list[Finding] = []
    left: list[tuple[Node | None, Mapping[str, Any], str]] = [(root, _SDL, "")]
    seen: set[tuple[int, int]] = set()  # an aliased node is walked once
    while left:
        node, grammar, path = left.pop()
        if node is None or (id(node), id(grammar)) in seen:
            continue
        seen.add((id(node), id(grammar)))
        if type(node) is SequenceNode:
            left += [(item, grammar, f"{path}[{index}]") for index, item in enumerate(node.value)]
        elif type(node) is MappingNode:
            for key, value in _members(node):
                inner = f"{path}.{key.value}".lstrip(".")
                if _ANY not in grammar and key.value not in grammar:
                    found.append(_finding(key, grammar, file, inner))
                elif below := grammar.get(_ANY, grammar.get(key.value)):
                    left.append((value, below, inner))
    return sorted(found, key=lambda item: (item.line, item.column))


def _members(node: Node) -> Iterator[tuple[ScalarNode, Node]]:
    """The members with a key that is text; those of merge keys are checked where they are written."""
    for key, value in node.value:
        if type(key) is ScalarNode and (key.value != "<<" or key.style):
            yield key, value


def _finding(key: ScalarNode, grammar: Mapping[str, Any], file: str, path: str) -> Finding:
    mark = key.start_mark
    near = get_close_matches(key.value[:60], list(grammar), 1)
    places = () if near else tuple(sorted({place for place in _places(_SDL, key.value, "") if place}))
    hint = f"did you mean {near[0]}?" if near else f"it belongs to {', '.join(places[:2])}" if places else ""
    message = f"the key {shown(key)} has no effect here{f'; {hint}' if hint else ''}"
    return Finding(file, mark.line + 1, mark.column + 1, path[:400], message, "", ", ".join(grammar))


def _places(grammar: Mapping[str, Any], name: str, above: str) -> Iterator[str]:
    """The sections in which `name` has an effect."""
    for key, below in grammar.items():
        if key == name:
            yield above
        if below:
            yield from _places(below, name, above if key == _ANY else key)
