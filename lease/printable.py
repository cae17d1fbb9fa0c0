"""Text of tenants, nodes and registries on its way to a terminal."""

from __future__ import annotations

__all__ = ["printable", "printable_line"]

_KEPT = "\t\n"


def printable(text: str) -> str:
    """`text` without characters that could steer a terminal or turn its direction; line breaks and tabs stay.

    Each is shown as U+FFFD, so that a reader sees that something was there.
    """
    if text.isprintable():
        return text
    return "".join(char if char in _KEPT or char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def printable_line(text: str) -> str:
    """The same of a text that must stay one line, since another could pretend to be ours: a break is shown as `\\n`."""
    return printable(text).replace("\n", "\\n")
