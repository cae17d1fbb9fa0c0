"""Text of tenants, nodes and registries, made safe for a terminal."""

from __future__ import annotations

__all__ = ["printable", "printable_line"]

_KEPT = "\t\n"


def printable(text: str) -> str:
    """`text` with U+FFFD for each character that could steer a terminal or turn its direction; line breaks and tabs
    stay.

    The replacement shows a reader that a character was there.
    """
    if text.isprintable():
        return text
    return "".join(char if char in _KEPT or char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def printable_line(text: str) -> str:
    r"""`printable` text as one line: a line break is shown as `\n`, so that no text can imitate a line of Lessor."""
    return printable(text).replace("\n", "\\n")
