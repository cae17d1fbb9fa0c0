"""The exit codes of all `lessor` commands. docs/exit-codes.md has the same table.

64, 69 and 78 are those of sysexits.h. The module is here because the provider's and the devnet's commands share it.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["EXIT_CODES", "FINDING", "FINE", "INTERRUPTED", "SETTINGS", "TROUBLE", "UNAVAILABLE", "USAGE"]

FINE, FINDING, TROUBLE, USAGE, UNAVAILABLE, SETTINGS, INTERRUPTED = 0, 1, 2, 64, 69, 78, 130

EXIT_CODES: Mapping[int, str] = {
    FINE: "fine",
    FINDING: "finding or warning",
    TROUBLE: "trouble",
    USAGE: "wrong usage",
    UNAVAILABLE: "no provider answers",
    SETTINGS: "wrong settings",
    INTERRUPTED: "Ctrl-C",
}
"""The short meaning of each code."""
