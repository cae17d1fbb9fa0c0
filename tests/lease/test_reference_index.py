"""Every numbered behaviour of sdl-and-manifest.md §6 has a test: one that cites it, or one elsewhere, named here."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
REFERENCE = CHECKOUT / "docs" / "protocol" / "sdl-and-manifest.md"
LAST = 46
CITATION = re.compile(r"sdl-and-manifest\.md §6 (\d+)\b")

GATEWAY, CLAIMS = "tests/provider/gateway/test_intake.py", "tests/provider/claims/test_hostname_claims.py"
ELSEWHERE: dict[int, tuple[str, tuple[tuple[str, str], ...]]] = {
    40: (
        "statuses are the gateway's",
        (
            (GATEWAY, "test_an_accepted_manifest_is_in_the_cluster_and_announced_when_200_is_read"),
            (GATEWAY, "test_a_refusal_has_its_text_and_changes_nothing"),
        ),
    ),
    42: (
        "hostnames are the operator's claims",
        (
            (CLAIMS, "test_blocked_names_are_refused"),
            (CLAIMS, "test_a_name_of_another_lease_of_the_owner_is_withheld"),
            (CLAIMS, "test_a_name_of_another_owner_is_refused_whatever_its_case_until_it_is_released"),
            (CLAIMS, "test_names_may_be_moved_within_an_owner_only"),
        ),
    ),
    43: (
        "the manifest service is the gateway's intake",
        (
            (GATEWAY, "test_a_refusal_has_its_text_and_changes_nothing"),
            (GATEWAY, "test_a_manifest_that_takes_too_long_ends_with_the_recorded_text"),
            (GATEWAY, "test_without_static_hosts_an_http_service_must_name_its_host"),
            (GATEWAY, "test_the_newest_manifest_replaces_the_older_one"),
        ),
    ),
}
NOT_BUILT = {41: "the watchdog that closes the bid of a lease without a manifest"}
"""Taken out when it is built: then a test that cites the number must exist."""


def _tests(path: Path) -> dict[str, str]:
    """Docstrings by name of the tests of a module."""
    tree = ast.parse(path.read_text())
    return {
        node.name: ast.get_docstring(node) or ""
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def cited() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for path in sorted((CHECKOUT / "tests").rglob("test_*.py")):
        if "sdl-and-manifest.md §6" in path.read_text():
            for name, docstring in _tests(path).items():
                for number in CITATION.findall(docstring):
                    found.setdefault(int(number), []).append(f"{path.name}::{name}")
    return found


def test_every_numbered_behaviour_is_cited_by_a_test_or_named_as_held_elsewhere() -> None:
    missing = set(range(1, LAST + 1)) - set(cited()) - set(ELSEWHERE) - set(NOT_BUILT)
    assert not missing, f"no test cites sdl-and-manifest.md §6 {sorted(missing)}"


def test_no_test_cites_a_number_that_is_not_there_and_no_exception_is_cited_too() -> None:
    assert set(cited()) <= set(range(1, LAST + 1))
    assert not set(cited()) & (set(ELSEWHERE) | set(NOT_BUILT))


@pytest.mark.parametrize("number", ELSEWHERE)
def test_the_tests_that_hold_a_behaviour_elsewhere_exist(number: int) -> None:
    reason, holders = ELSEWHERE[number]
    assert reason
    for path, name in holders:
        assert name in _tests(CHECKOUT / path), f"{number}: {path} has no {name}"


def test_the_reference_still_has_as_many_numbers() -> None:
    text = REFERENCE.read_text().partition("## 6. ")[2].partition("\n## 7. ")[0]
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", text, re.MULTILINE)]
    assert numbers == list(range(1, LAST + 1))
