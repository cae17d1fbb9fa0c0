"""`lessor policy list` and `test`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from components.lease import lease_objects
from policies.judge import RULES
from provider.cli import build_app
from tests.components.specs import fenced

run = CliRunner()
RULE = """
from policies.rules import Level, Rule, Severity, of_each
def check(item):
    if "bad" in item.get("metadata", {}).get("name", ""):
        yield "has a bad name"
RULES = [
    Rule("no-bad-name", Severity.LOW, Level.MANDATORY, "Why.", "Do.", check=of_each(check), keeps=[%s], breaks=[%s])
]
"""
GOOD, BAD = '{"kind": "Pod", "metadata": {"name": "web"}}', '{"kind": "Pod", "metadata": {"name": "bad"}}'


@pytest.fixture
def policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "policies.yaml"
    path.write_text(
        "levels: {quota: advisory}\nexemptions: [{owner: akash1abcdef, rules: [isolated], reason: agreed}]\n"
    )
    monkeypatch.setenv("LESSOR_POLICY_FILE", str(path))
    return path


def rules(tmp_path: Path, keeps: str = GOOD, breaks: str = BAD) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(RULE % (keeps, breaks))
    path.chmod(0o644)
    return path


def test_every_rule_is_listed_with_its_level_and_every_exemption(policies: Path) -> None:
    shown = run.invoke(build_app(), ["policy", "list"])
    assert shown.exit_code == 0
    assert all(rule.id in shown.output for rule in RULES)
    assert "advisory (weakened)" in shown.output
    assert "exempted: akash1abcdef from isolated: agreed" in shown.output
    document = json.loads(run.invoke(build_app(), ["policy", "list", "--json"]).output)
    assert [rule["id"] for rule in document["rules"] if rule["weakened"]] == ["quota"]
    assert document["exemptions"][0]["owner"] == "akash1abcdef"


def test_a_wrong_policy_file_is_named_with_exit_code_78(policies: Path) -> None:
    policies.write_text("level: {}")
    for command in (["policy", "list"], ["policy", "test", str(policies)]):
        shown = run.invoke(build_app(), command)
        assert shown.exit_code == 78
        assert "level: there is no such key (did you mean levels?)" in shown.output


def test_own_rules_are_tested_by_their_examples(tmp_path: Path) -> None:
    assert run.invoke(build_app(), ["policy", "test", str(rules(tmp_path))]).exit_code == 0
    wrong = run.invoke(build_app(), ["policy", "test", str(rules(tmp_path, keeps=BAD, breaks=GOOD))])
    assert wrong.exit_code == 1
    assert "rule no-bad-name: example 1 of `keeps` breaks it: has a bad name" in wrong.output
    assert "rule no-bad-name: example 1 of `breaks` does not break it" in wrong.output
    bare = run.invoke(build_app(), ["policy", "test", str(rules(tmp_path, keeps="", breaks=""))])
    assert bare.exit_code == 0 and "no-bad-name has no example" in bare.output


def test_objects_of_a_file_are_judged(tmp_path: Path) -> None:
    objects = tmp_path / "objects.yaml"
    objects.write_text(yaml.safe_dump_all(lease_objects(fenced())))
    assert run.invoke(build_app(), ["policy", "test", str(rules(tmp_path)), str(objects)]).exit_code == 0
    objects.write_text(yaml.safe_dump({"items": [json.loads(BAD), {"kind": "Pod", "spec": {"hostPID": True}}]}))
    shown = run.invoke(build_app(), ["policy", "test", str(rules(tmp_path)), str(objects)])
    assert shown.exit_code == 1
    assert "Pod bad: has a bad name (no-bad-name, low)" in shown.output
    assert "hostPID is set (no-host-namespace, critical)" in shown.output
    absent = run.invoke(build_app(), ["policy", "test", str(rules(tmp_path)), str(tmp_path / "absent")])
    assert absent.exit_code == 2
