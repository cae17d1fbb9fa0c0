"""Which text each rule for names takes."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from lease import kubernetes_names as names

_LONG, _LONGER = "a" * 63, "a" * 64
_TAKEN: dict[Callable[[str], bool], tuple[str, ...]] = {
    names.is_label: ("a", "0a", "a-b", _LONG),
    names.is_service_label: ("a", "a-0", _LONG),
    names.is_manifest_service_name: ("a", "a-0", _LONG, _LONGER, "a" * 300),
    names.is_subdomain: ("a", "0", "a.b-c.d", _LONGER, "1.2.3.4", "a" * 253),
    names.is_subdomain_of_labels: ("a", "a.b", f"{_LONG}.{_LONG}.{_LONG}.{'a' * 61}", "1.2.3.4"),
    names.is_hostname: ("a", "A.b", f"{_LONG}.B", "1.2.3.4"),
    names.is_label_name: ("a", "A_b.c-D", "0", _LONG),
    names.is_variable_name: ("A", "_a", "-", ".a", "a..b", "a" * 300),
}
_REFUSED: dict[Callable[[str], bool], tuple[str, ...]] = {
    names.is_label: (_LONGER, "A", "a.b", "-a", "a-"),
    names.is_service_label: (_LONGER, "0a", "A", "a.b", "a-"),
    names.is_manifest_service_name: ("0a", "A", "a.b", "a-", "-a"),
    names.is_subdomain: ("A", "a..b", ".a", "a.", "-a", "a-.b", "a" * 254, "*.a"),
    names.is_subdomain_of_labels: (_LONGER, f"{_LONGER}.a", "A", "*.a", f"{_LONG}.{_LONG}.{_LONG}.{'a' * 62}"),
    names.is_hostname: (_LONGER, "a..b", "a_b", "-a", "*.a"),
    names.is_label_name: (_LONGER, "-a", "a.", "a/b"),
    names.is_variable_name: ("0", ".", "..", "..a", "a b", "a="),
}
_NEVER = ("", "a\n", "\na", "a b", "ä")


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in _TAKEN.items() for text in texts])
def test_a_name_that_keeps_the_rule_is_taken(rule: Callable[[str], bool], text: str) -> None:
    assert rule(text)


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in _REFUSED.items() for text in texts])
def test_a_name_that_breaks_the_rule_is_refused(rule: Callable[[str], bool], text: str) -> None:
    assert not rule(text)


@pytest.mark.parametrize("rule", _TAKEN)
@pytest.mark.parametrize("text", _NEVER)
def test_no_rule_takes_an_empty_text_a_blank_a_line_break_or_a_letter_of_no_ascii(
    rule: Callable[[str], bool], text: str
) -> None:
    assert not rule(text)


@pytest.mark.parametrize("text", [*_TAKEN[names.is_label], *_REFUSED[names.is_label]])
def test_the_patterns_for_schemas_say_the_same_as_the_rules(text: str) -> None:
    assert bool(re.match(names.LABEL_PATTERN, text)) is names.is_label(text)
    assert bool(re.match(names.OPTIONAL_LABEL_PATTERN, text)) is names.is_label(text)


@pytest.mark.parametrize("text", ["a", "a.b-c", "a..b", "A", "a-"])
def test_the_pattern_of_a_subdomain_says_the_same_as_the_rule(text: str) -> None:
    assert bool(re.match(names.SUBDOMAIN_PATTERN, text)) is names.is_subdomain(text)
