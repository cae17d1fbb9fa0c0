"""Texts that mean something else to Pulumi than what they say: a container's argument that equals one arrives empty.

The SDK and the engine write special values into ordinary texts and maps: a value that is not known yet is a fixed UUID,
a secret is a map with a fixed key. A tenant's text that equals one of them is read as such a value. There is no escape
on the wire, so no text of an object may equal one. A variable's value goes into a Secret, whose data is base64; every
other text is refused before the manifest is accepted.
"""

from __future__ import annotations

__all__ = ["MARKERS", "first_marker"]

_UNKNOWN = (
    "04da6b54-80e4-46f7-96ec-b56ff0331ba9",  # string; the only one that the SDK for Python writes
    "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # boolean
    "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # number
    "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # array
    "030794c1-ac77-496b-92df-f27374a8bd58",  # asset
    "e48ece36-62e2-4504-bad9-02848725956a",  # archive
    "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # object
)
_SIGNATURES = (
    "4dabf18193072939515e22adb298388d",  # the key; the others are its values
    "1b47061264138c4ac30d75fd1eb44270",  # secret
    "c44067f5952c0a294b673a41bacd8c17",  # asset
    "0def7320c3a5731c473e5ecbe6d01bc7",  # archive
    "5cf8f73096256a8f31e491e813e4eb8e",  # resource
    "d0e6a833031e9bbcd3f4e8bde6ca49a4",  # output
    "803fd3297a5875dc03ca845dda5d2a98",  # string that is not UTF-8
    "8ad145fe-0d11-4827-bfd7-1abcbf086f5c",  # number that JSON does not have
)
MARKERS = frozenset((*_UNKNOWN, *_SIGNATURES))
"""Each counts only as a whole text: a text that contains one arrives as it is."""


def first_marker(value: object) -> str:
    """A key or text inside `value`, which is made of dicts, lists and tuples, that equals a marker; "" without one."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            if each in MARKERS:
                return each
        elif isinstance(each, dict):
            left.extend(each)
            left.extend(each.values())
        elif isinstance(each, (list, tuple)):
            left.extend(each)
    return ""
