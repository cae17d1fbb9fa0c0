"""The whole document as raw values: version and sections, without checks across them (sdl-and-manifest.md §1.1-1.3,
§1.12-1.13).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from yaml.nodes import MappingNode, Node, ScalarNode

from lease.sdl.profiles import Compute, Placement, read_compute, read_placement
from lease.sdl.reader import Reader, is_null
from lease.sdl.services import RawService, read_service

__all__ = ["Deployed", "Document", "read_document"]

_TOP = ("version", "include", "services", "profiles", "deployment", "endpoints", "reclamation")
_VERSION = re.compile(
    r"v?(\d{1,20})(?:\.(\d{1,20}))?(?:\.(\d{1,20}))?(-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)


class Deployed(NamedTuple):
    """One service in one placement."""

    node: Node
    profile: str
    replicas: int


class Document(NamedTuple):
    """`merges_units`: version 2.1 or later. `reclamation` is the section's node, None without it."""

    merges_units: bool
    services: dict[str, RawService]
    compute: dict[str, Compute]
    placements: dict[str, Placement]
    deployment: dict[str, dict[str, Deployed]]
    endpoints: dict[str, Node]
    reclamation: Node | None


def _read_version(reader: Reader, top: dict[str, Node]) -> bool:
    """Whether the rules of 2.1 apply. A valid version is exactly 2.0.0, or 2.1.0 and above; pre-releases sort below."""
    node = top.get("version")
    allowed = '"2.0", "2.1"'
    if node is None or is_null(node):
        reader.problem(node or reader.root, "no version found", suffix="" if node else "version", allowed=allowed)
        reader.check()
    match = _VERSION.fullmatch(reader.text(node).strip())
    if match is None or any(int(part or 0) >= 2**64 for part in match.group(1, 2, 3)):
        reader.problem(node, "not a version", allowed=allowed)  # type: ignore[arg-type]
        reader.check()
        return False
    numbers = tuple(int(part or 0) for part in match.group(1, 2, 3))
    newer = numbers > (2, 1, 0) or (numbers == (2, 1, 0) and not match[4])
    if not newer and (numbers != (2, 0, 0) or match[4]):
        shown = ".".join(map(str, numbers)) + (match[4] or "")
        reader.problem(node, f'unsupported version "{shown}"', allowed=allowed)  # type: ignore[arg-type]
        reader.check()
    return newer


def _deployed(reader: Reader, node: Node) -> Deployed:
    found = reader.entries(node)
    return Deployed(node, reader.text(found.get("profile")), reader.uint32(found.get("count")))


def _placed(reader: Reader, node: Node) -> dict[str, Deployed]:
    return reader.mapping_of(node, _deployed)


def read_document(reader: Reader) -> Document:
    """All sections. Raises `SdlInvalid` for a root that is no mapping, a version without rules, and values of a wrong
    type.
    """
    root = reader.root
    if type(root) is ScalarNode and is_null(root):
        reader.problem(root, "uninitialized: the document is empty", found="")
        reader.check()
    if type(root) is not MappingNode:
        reader.problem(root, "no version found: an SDL is a mapping", allowed=", ".join(_TOP))
        reader.check()
    version = {key.value: value for key, value in root.value if type(key) is ScalarNode and key.value == "version"}
    merges_units = _read_version(reader, version)
    top = reader.strict(root, _TOP, "unexpected field {}")
    profiles = reader.entries(top.get("profiles"))
    reader.texts(top.get("include"))
    reclamation = top.get("reclamation")
    document = Document(
        merges_units,
        reader.mapping_of(top.get("services"), read_service),
        reader.mapping_of(profiles.get("compute"), read_compute),
        reader.mapping_of(profiles.get("placement"), read_placement),
        reader.mapping_of(top.get("deployment"), _placed),
        reader.entries(top.get("endpoints")),
        None if is_null(reclamation) else reclamation,
    )
    reader.check(decoding=True)
    return document
