"""docs/field-problems.md names tests that exist, and reasons where there is none."""

from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).parents[3]
_ROW = re.compile(r"\| ([A-Z]\d+) \| .+ \| (.+) \|")


def _rows() -> dict[str, str]:
    text = (_ROOT / "docs" / "field-problems.md").read_text()
    return {match[1]: match[2] for line in text.splitlines() if (match := _ROW.fullmatch(line))}


def test_every_row_names_tests_that_exist_or_gives_a_reason() -> None:
    there = set()
    for path in (_ROOT / "tests").rglob("test_*.py"):
        there |= set(re.findall(r"def (test_\w+)", path.read_text()))
    rows = _rows()
    assert len(rows) >= 17
    for number, answer in rows.items():
        named = set(re.findall(r"`(test_\w+)`", answer))
        assert named <= there, f"{number}: {sorted(named - there)}"
        assert named or "*not answered*" in answer or "*does not arise*" in answer, number
