"""Tables and times as the commands print them."""

from __future__ import annotations

import sys

import pytest

from provider.cli.output import table_lines, utc_time


def test_a_row_is_one_line_in_a_pipe_however_long_it_is() -> None:
    lines = table_lines([("a", "x" * 5000), ("bb", "[red]y[/red]")], header=("NAME", "TEXT"))
    assert lines == ["NAME  TEXT", "a     " + "x" * 5000, "bb    [red]y[/red]"]


def test_numbers_are_aligned_on_the_right_and_wide_characters_count_twice() -> None:
    assert table_lines([("漢", "1", "x"), ("abc", "22", "")], right={1}) == ["漢    1  x", "abc  22"]


def test_a_cell_that_steers_the_terminal_or_has_several_lines_stays_one_plain_line() -> None:
    assert table_lines([("a\x1b[2J", "b\nc")]) == ["a\N{REPLACEMENT CHARACTER}[2J  b\\nc"]


def test_no_rows_are_no_lines() -> None:
    assert table_lines([], header=("NAME",)) == []


@pytest.mark.parametrize(
    ("columns", "expected"), [("40", ["a" * 18 + "  " + "b" * 20, " " * 20 + "b" * 5]), ("30", None)]
)
def test_on_a_terminal_the_last_column_is_folded_unless_it_would_be_too_narrow(
    monkeypatch: pytest.MonkeyPatch, columns: str, expected: list[str] | None
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert table_lines([("a" * 18, "b" * 25)]) == (expected or ["a" * 18 + "  " + "b" * 25])


def test_a_time_is_in_utc() -> None:
    assert utc_time(1_700_000_000.9) == "2023-11-14T22:13:20Z"
