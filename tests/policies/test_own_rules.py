"""An operator's own rules: loaded from a file that only its owner may write, judged like any other, and never fatal."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.lease import lease_objects
from policies.book import read_book
from policies.errors import PolicyFileError
from policies.own_rules import own_rules
from tests.components.specs import fenced

HEAD = """
from policies.rules import Level, Rule, Severity, of_each
def rule(id, check, reason="Why.", remedy="Do."):
    return Rule(id, Severity.LOW, Level.MANDATORY, reason, remedy, check=of_each(check))
"""


def file(tmp_path: Path, text: str, mode: int = 0o644) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(HEAD + text)
    path.chmod(mode)
    return path


def test_an_own_rule_judges_what_is_new_and_no_repair(tmp_path: Path) -> None:
    path = file(
        tmp_path, "RULES = [rule('no-demo', lambda item: ['is a demo'] if item['kind'] == 'Deployment' else [])]"
    )
    (tmp_path / "p.yaml").write_text("rules: [mine.py]")
    book = read_book(tmp_path / "p.yaml")
    found = book.judge(lease_objects(fenced()))
    assert [(each.rule, each.problem, each.mandatory) for each in found] == [("no-demo", "is a demo", True)]
    assert book.judge(lease_objects(fenced()), fences=True) == ()
    assert [(each.topic, each.fence) for each in own_rules(path)] == [("own", False)]


def test_a_rule_that_fails_is_broken_and_ends_nothing(tmp_path: Path) -> None:
    file(tmp_path, "RULES = [rule('fails', lambda item: item['absent'])]")
    (tmp_path / "p.yaml").write_text("rules: [mine.py]")
    (found,) = read_book(tmp_path / "p.yaml").judge(lease_objects(fenced()))
    assert found.problem == "the rule failed with KeyError: 'absent'" and found.mandatory


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it has no list RULES"),
        ("RULES = [1]", "it has no list RULES"),
        ("RULES = [rule('A b', list)]", "rule 'A b': an id has 3 to 63 lower-case letters"),
        ("RULES = [rule('quota', list)]", "rule quota: another rule has this id"),
        ("RULES = [rule('one', list), rule('one', list)]", "rule one: another rule has this id"),
        ("RULES = [rule('one', list, reason=' ')]", "rule one: reason and remedy are missing"),
        ("1 / 0", "it failed with ZeroDivisionError: division by zero"),
        ("def x(:", "it failed with SyntaxError"),
    ],
)
def test_a_wrong_file_of_rules_is_refused_with_the_reason(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(PolicyFileError) as refused:
        own_rules(file(tmp_path, text))
    assert problem in str(refused.value)


def test_a_file_that_others_may_write_is_not_run(tmp_path: Path) -> None:
    path = file(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')\nRULES = []", mode=0o666)
    with pytest.raises(PolicyFileError, match="others may write it"):
        own_rules(path)
    assert not (tmp_path / "ran").exists()
