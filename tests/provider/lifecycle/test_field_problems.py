"""docs/field-problems*.md name tests that exist, and reasons where there is none."""

from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).parents[3]
_ROW = re.compile(r"\| ([A-Z]\d+(?:, [A-Z]\d+)*) \| .+ \| (.+) \|")
_PROBLEM = re.compile(r"^\*\*([A-Z]\d+)\. ", re.MULTILINE)


def _rows() -> dict[str, str]:
    texts = [path.read_text() for path in sorted((_ROOT / "docs").glob("field-problems*.md"))]
    found = [match for text in texts for line in text.splitlines() if (match := _ROW.fullmatch(line))]
    return {f"{match[1]} ({place})": match[2] for place, match in enumerate(found)}


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


def test_every_problem_of_the_reference_has_a_row() -> None:
    problems = set(_PROBLEM.findall((_ROOT / "docs/protocol/field-problems.md").read_text()))
    answered = {number for row in _rows() for number in row.partition(" (")[0].split(", ")}
    assert len(problems) > 100
    assert problems - answered == set()
    assert answered - problems == set(), "a row of no problem"
