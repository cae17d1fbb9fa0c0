"""The memory modules of a machine, from the firmware's SMBIOS table (DSP0134 §7.18, structure type 17)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from provider.operators.hardware.tree import Tree

__all__ = ["memory_modules"]

_TABLE = "/sys/firmware/dmi/tables/DMI"
_MEMORY_DEVICE, _END = 17, 127
_TYPES = {0x18: "DDR3", 0x1A: "DDR4", 0x1B: "LPDDR", 0x1C: "LPDDR2", 0x1D: "LPDDR3", 0x1E: "LPDDR4", 0x20: "HBM",
          0x21: "HBM2", 0x22: "DDR5", 0x23: "LPDDR5", 0x24: "HBM3"}  # fmt: skip
_MIB = 1024 * 1024
_SIZE, _LOCATOR, _BANK, _TYPE, _SPEED, _VENDOR, _SERIAL, _EXTENDED = 0x0C, 0x10, 0x11, 0x12, 0x15, 0x17, 0x18, 0x1C
_SEE_EXTENDED, _UNKNOWN_SIZE = 0x7FFF, 0xFFFF


def memory_modules(tree: Tree) -> list[dict[str, Any]]:
    """The filled slots; empty if the table cannot be read (it is root's) or is damaged from some structure on."""
    found = (
        _module(head, strings) for kind, head, strings in _structures(tree.content(_TABLE)) if kind == _MEMORY_DEVICE
    )
    return [module for module in found if module["size_bytes"]]


def _structures(table: bytes) -> Iterator[tuple[int, bytes, list[str]]]:
    """Type, formatted area and texts of each structure. The texts end with two zero bytes."""
    at = 0
    while at + 4 <= len(table):
        kind, length = table[at], table[at + 1]
        end = table.find(b"\0\0", at + length)
        if length < 4 or end < 0:
            return
        texts = table[at + length : end].split(b"\0")
        yield kind, table[at : at + length], [text.decode(errors="replace").strip() for text in texts]
        if kind == _END:
            return
        at = end + 2


def _module(head: bytes, strings: list[str]) -> dict[str, Any]:
    def text(offset: int) -> str:
        number = head[offset] if offset < len(head) else 0
        return strings[number - 1] if 0 < number <= len(strings) else ""

    speed = _word(head, _SPEED)
    return {
        "label": text(_LOCATOR),
        "location": text(_BANK),
        "serial_number": text(_SERIAL),
        "size_bytes": _size_bytes(head),
        "vendor": text(_VENDOR),
        "type": _TYPES.get(head[_TYPE] if len(head) > _TYPE else 0, ""),
        "speed_mts": speed if speed not in (0, 0xFFFF) else 0,
    }


def _size_bytes(head: bytes) -> int:
    size = _word(head, _SIZE)
    if size in (0, _UNKNOWN_SIZE):
        return 0
    if size == _SEE_EXTENDED:
        whole = head[_EXTENDED : _EXTENDED + 4]
        return (struct.unpack("<I", whole)[0] & 0x7FFFFFFF) * _MIB if len(whole) == 4 else 0
    return (size & 0x7FFF) * (1024 if size & 0x8000 else _MIB)


def _word(head: bytes, offset: int) -> int:
    return int.from_bytes(head[offset : offset + 2], "little") if offset + 2 <= len(head) else 0
