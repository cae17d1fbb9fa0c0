"""Storage of a compute profile: volumes, their classes and their order (sdl-and-manifest.md §1.9)."""

from __future__ import annotations

from collections.abc import Sequence

from yaml.nodes import MappingNode, Node, SequenceNode

from lease.resources import Attribute, Volume
from lease.sdl.quantities import byte_size
from lease.sdl.reader import Reader, is_null

__all__ = ["CLASSES", "quantity", "read_storage", "sorted_volumes"]

CLASSES = ("default", "beta1", "beta2", "beta3", "ram")
_KEYS = ("persistent", "class")
_TRUE = ("true", "on", "yes")
_FALSE = ("false", "off", "no")


def quantity(reader: Reader, node: Node | None) -> int:
    """A byte size; 0 when absent or null."""
    if node is None or is_null(node):
        return 0
    try:
        return byte_size(reader.raw_text(node))
    except ValueError as error:
        reader.problem(node, str(error), allowed="bytes, or a number with k M G T P E Ki Mi Gi Ti Pi Ei")
        return 0


def _class_problem(storage_class: str, persistent: str) -> str:
    """The problem between the two keys, on the text as written."""
    if storage_class == "ram":
        return "" if persistent == "false" else "ram storage class cannot be persistent"
    if storage_class and persistent == "false":
        return "ephemeral storage should not set attribute class"
    return ""


def _attributes(reader: Reader, node: Node) -> tuple[Attribute, ...]:
    """The attributes. They are a mapping of texts in Go, so merge keys count here; the rules between the two keys come
    before unknown keys.
    """
    if is_null(node):
        return ()
    before = reader.noted
    found = reader.entries(node)
    texts = {name: reader.text(value) for name, value in found.items()}
    if reader.noted != before:
        return ()
    persistent = texts.setdefault("persistent", "false")
    if not texts.get("class") and persistent == "true":
        texts["class"] = "default"
    if problem := _class_problem(texts.get("class", ""), persistent):
        reader.problem(found.get("class", node), problem)
    else:
        _check_values(reader, node, found, texts)
    texts["persistent"] = "true" if persistent in _TRUE else "false"
    return tuple([Attribute(name, texts[name]) for name in ("class", "persistent") if name in texts])


def _check_values(reader: Reader, node: Node, found: dict[str, Node], texts: dict[str, str]) -> None:
    """Check each value in the order of the document; Go has no fixed order."""
    for name, text in texts.items():
        where = found.get(name, node)
        if name not in _KEYS:
            reader.problem(where, f"unsupported storage attribute: {name[:60]}", allowed=", ".join(_KEYS))
        elif name == "persistent" and text not in _TRUE + _FALSE:
            refusal = 'invalid value for attribute "persistent". expected bool'
            reader.problem(where, refusal, allowed="true, false")
        elif name == "class" and text not in CLASSES:
            reader.problem(where, "invalid value for attribute class", allowed=", ".join(CLASSES))


def _volume(reader: Reader, node: Node, *, name: str = "") -> Volume:
    found = reader.entries(node)
    name = name or reader.text(found.get("name")) or "default"
    attributes = found.get("attributes")
    return Volume(
        name, quantity(reader, found.get("size")), () if attributes is None else _attributes(reader, attributes)
    )


def read_storage(reader: Reader, node: Node | None) -> tuple[Volume, ...] | None:
    """The volumes in the order of the manifest. A mapping is one volume named `default`; a scalar, null or [] is no
    storage.
    """
    if type(node) is MappingNode:
        return (_volume(reader, node, name="default"),)
    if type(node) is not SequenceNode or not node.value:
        return None
    volumes: list[Volume] = []
    names: set[str] = set()
    before = reader.noted
    first_wrong = 0
    for item in reader.items(node) or ():
        volume = _volume(reader, item)
        first_wrong = first_wrong or (reader.noted if reader.noted != before else 0)
        volumes.append(volume)
    for item, volume in zip(node.value, volumes, strict=True):
        if volume.name in names:
            reader.problem(item, f'duplicated volume name "{volume.name}"', found=volume.name)
        names.add(volume.name)
    if first_wrong:
        reader.out_of_reach(first_wrong)
    return tuple(sorted_volumes(volumes))


def sorted_volumes(volumes: Sequence[Volume]) -> list[Volume]:
    """The volumes by size; of equal ones first those without attributes (last first), then the ephemeral ones (last
    first), then the persistent ones by name.
    """
    if len(volumes) < 2:
        return list(volumes)

    def rank(indexed: tuple[int, Volume]) -> tuple[int, int, int, str]:
        index, volume = indexed
        if volume.persistent:
            return volume.size_bytes, 2, 0, volume.name
        return volume.size_bytes, 1 if volume.attributes else 0, -index, ""

    return [volume for _, volume in sorted(enumerate(volumes), key=rank)]
