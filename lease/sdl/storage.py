"""Storage of a compute profile: volumes, their classes and their peculiar order (sdl-and-manifest.md §1.9)."""

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
        return byte_size(reader.text(node))
    except ValueError as error:
        reader.problem(node, str(error), allowed="bytes, or a number with k M G T P E Ki Mi Gi Ti Pi Ei")
        return 0


def _class_problem(storage_class: str, persistent: str) -> str:
    """The rules between the two keys, on the text as written."""
    if storage_class == "ram":
        return "" if persistent == "false" else "ram storage class cannot be persistent"
    if storage_class and persistent == "false":
        return "ephemeral storage should not set attribute class"
    return ""


def _attributes(reader: Reader, node: Node) -> tuple[Attribute, ...]:
    if is_null(node):
        return ()
    found = reader.strict(node, _KEYS, "storage attributes")
    texts = {name: reader.text(value) for name, value in found.items()}
    persistent = texts.setdefault("persistent", "false")
    if not texts.get("class") and persistent == "true":
        texts["class"] = "default"
    if problem := _class_problem(texts.get("class", ""), persistent):
        reader.problem(found.get("class", node), problem)
    elif persistent not in _TRUE + _FALSE:
        reader.problem(found.get("persistent", node), "invalid value for attribute persistent", allowed="true, false")
    elif "class" in texts and texts["class"] not in CLASSES:
        reader.problem(found.get("class", node), "invalid value for attribute class", allowed=", ".join(CLASSES))
    texts["persistent"] = "true" if persistent in _TRUE else "false"
    return tuple([Attribute(name, texts[name]) for name in ("class", "persistent") if name in texts])


def _volume(reader: Reader, node: Node, *, name: str = "") -> Volume:
    found = reader.entries(node)
    name = name or reader.text(found.get("name")) or "default"
    attributes = found.get("attributes")
    return Volume(
        name, quantity(reader, found.get("size")), () if attributes is None else _attributes(reader, attributes)
    )


def read_storage(reader: Reader, node: Node | None) -> tuple[Volume, ...] | None:
    """Volumes in the order of the manifest. A mapping is one volume called `default`; a scalar, null or [] is no
    storage.
    """
    if type(node) is MappingNode:
        return (_volume(reader, node, name="default"),)
    if type(node) is not SequenceNode or not node.value:
        return None
    volumes: list[Volume] = []
    names: set[str] = set()
    for item in reader.items(node) or ():
        volume = _volume(reader, item)
        if volume.name in names:
            reader.problem(item, f'duplicated volume name "{volume.name}"', found=volume.name)
        names.add(volume.name)
        volumes.append(volume)
    return tuple(sorted_volumes(volumes))


def sorted_volumes(volumes: Sequence[Volume]) -> list[Volume]:
    """By size; among equals those without attributes (last first), the ephemeral ones (last first), the persistent
    by name.
    """
    if len(volumes) < 2:
        return list(volumes)

    def rank(indexed: tuple[int, Volume]) -> tuple[int, int, int, str]:
        index, volume = indexed
        if volume.persistent:
            return volume.size_bytes, 2, 0, volume.name
        return volume.size_bytes, 1 if volume.attributes else 0, -index, ""

    return [volume for _, volume in sorted(enumerate(volumes), key=rank)]
