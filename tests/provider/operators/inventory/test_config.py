"""The configuration of the inventory operator (operators.md §2.8, §10 items 1 to 9)."""

from __future__ import annotations

import pytest

from provider.errors import SettingsError
from provider.operators.inventory.config import DEFAULT, parse_config

RULE = "exclude: {{node_storage: [{{node_filter: {filter}, classes: [{classes}]}}]}}\n"
BOTH = "cluster_storage: [default, beta2]\n"


def rule(classes: str, pattern: str = "^test") -> str:
    return RULE.format(filter=pattern, classes=classes)


def test_1_empty_lists_give_empty_lists() -> None:
    text = "version: v1\ncluster_storage: []\nexclude: {nodes: [], node_storage: []}\n"
    found = parse_config(text)
    assert (found.cluster_storage, found.excluded_nodes, found.rules) == ((), (), ())
    assert found.available(["default"]) == found


def test_2_classes_are_sorted() -> None:
    found = parse_config(f"version: v1\n{BOTH}")
    assert found.cluster_storage == ("beta2", "default")
    assert found.classes_of("test") == ("beta2", "default")
    assert found.available(["beta2", "default"]) == found


def test_3_a_rule_withholds_a_class_on_the_nodes_it_matches() -> None:
    found = parse_config(BOTH + rule("default"))
    assert found.classes_of("test") == ("beta2",)
    assert found.classes_of("other") == ("beta2", "default")


def test_4_a_rule_withholds_all_classes() -> None:
    assert parse_config(BOTH + rule("default, beta2")).classes_of("test") == ()


def test_5_a_rule_names_only_classes_that_are_listed() -> None:
    with pytest.raises(SettingsError, match="'beta2' is not listed in cluster_storage"):
        parse_config("cluster_storage: [default]\n" + rule("default, beta2"))


def test_6_a_node_is_excluded() -> None:
    found = parse_config("exclude: {nodes: [^test]}\n")
    assert found.excludes("test") and not found.excludes("a-test")


@pytest.mark.parametrize(
    ("exist", "offered", "on_test", "on_other"),
    [(["beta2"], ("beta2",), (), ("beta2",)), ([], (), (), ())],
)
def test_7_and_8_classes_that_do_not_exist_are_left_out_and_every_rule_stays(
    exist: list[str], offered: tuple[str, ...], on_test: tuple[str, ...], on_other: tuple[str, ...]
) -> None:
    """The Go provider's operator ends when two classes of one rule are absent."""
    found = parse_config(BOTH + rule("default, beta2")).available(exist)
    assert (found.cluster_storage, len(found.rules)) == (offered, 1)
    assert (found.classes_of("test"), found.classes_of("other")) == (on_test, on_other)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("version: bogus\n", "invalid version 'bogus'"),
        ("foo: 1\n", "unexpected field 'foo'"),
        ("exclude: {nodes: ['']}\n", "'' is not a pattern"),
        ("exclude: {nodes: ['(']}\n", "is not a regular expression"),
        ("cluster_storage: [a]\nexclude: {node_storage: [{classes: [a]}]}\n", "node_filter: is missing"),
        ("exclude: {pods: []}\n", "unexpected field 'pods'"),
        ("cluster_storage: beta2\n", "is not a list"),
        ("cluster_storage: [1]\n", "1 is not a text"),
        ("- v1\n", "is not a mapping"),
        ("a: [\n", "not YAML"),
    ],
)
def test_9_what_is_wrong_is_named(text: str, problem: str) -> None:
    with pytest.raises(SettingsError) as found:
        parse_config(text)
    assert problem in str(found.value)


@pytest.mark.parametrize(("text", "version"), [("", "1.0.0"), ("version: v1\n", "1.0.0"), ("version: 1.2\n", "1.2.0")])
def test_9_a_version_is_tolerant_and_may_be_missing(text: str, version: str) -> None:
    assert parse_config(text).version == version


def test_9_a_pattern_matches_anywhere() -> None:
    found = parse_config(BOTH + rule("default", "est"))
    assert found.classes_of("a-test-1") == ("beta2",)


def test_without_a_configuration_every_managed_class_is_offered() -> None:
    assert DEFAULT.available(["b", "a"]).classes_of("n1") == ("a", "b")
