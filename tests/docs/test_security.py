"""docs/security.md: each fence names tests, and each named test exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
_ACTORS = ("operator", "tenant", "anonymous peer", "chain node", "price script", "other local user")


def fences() -> list[list[str]]:
    """The rows of the tables of fences, by their cells."""
    text = PAGE.read_text().partition("\n## Fences")[2]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [row for row in rows if row[0] != "fence"]


def test_each_fence_names_the_tests_that_hold_it_and_each_of_them_exists() -> None:
    found = re.findall(r"def (test_\w+)", "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py")))
    for fence, held_by in fences():
        names = held_by.split(", ")
        assert set(names) <= set(found), f"{fence}: {set(names) - set(found)}"
    assert len(fences()) > 30


def test_everybody_has_a_row_and_everybody_not_trusted_has_fences() -> None:
    text = PAGE.read_text()
    assert all(f"\n| {actor} |" in text for actor in (*_ACTORS, "another tenant's pod"))
    headings = set(re.findall(r"^### (.*)$", text, re.MULTILINE))
    assert {actor.capitalize() for actor in _ACTORS[1:]} <= headings


def test_the_page_about_reporting_leads_to_it() -> None:
    assert "docs/security.md" in (ROOT / "SECURITY.md").read_text()
