"""What strangers wrote, on its way to a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lease.printable import printable, printable_line


@pytest.mark.parametrize("text", ["\x1b[31mred", "\x9b2J", "a\rb", "\u202eabc", "\x07", "\x00", "\u2028"])
def test_what_steers_a_terminal_is_shown_as_a_replacement(text: str) -> None:
    shown = printable(text)
    assert "\N{REPLACEMENT CHARACTER}" in shown
    assert len(shown) == len(text)


@pytest.mark.parametrize("text", ["région ✓", "two\nlines", "a\tb", ""])
def test_what_can_be_read_stays(text: str) -> None:
    assert printable(text) == text


@given(st.text())
def test_whatever_comes_in_only_printable_text_comes_out(text: str) -> None:
    assert all(char in "\t\n" or char.isprintable() for char in printable(text))


def test_a_line_stays_one_line() -> None:
    shown = printable_line("lost\n2026-01-01 all is well\x07")
    assert shown == "lost\\n2026-01-01 all is well\N{REPLACEMENT CHARACTER}"
