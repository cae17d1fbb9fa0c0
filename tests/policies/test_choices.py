"""The operator's file: its choices hold, what is wrong in it is named, and exemptions are for one owner and a time."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from components.lease import lease_objects
from lease.spec import LeaseSpec
from policies.book import RuleBook, read_book, rule_book, weakened
from policies.choices import PolicyChoices, read_choices
from policies.errors import PolicyFileError
from policies.facts import facts_of
from policies.judge import RULES
from policies.own_rules import own_rules
from policies.rules import Level
from tests.components.specs import LEASE, fenced, service

OWNER = LEASE.owner
PAGE = Path(__file__).parents[2] / "docs" / "policies.md"


def file(tmp_path: Path, text: str, name: str = "policies.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    path.chmod(0o644)
    return path


def mining() -> LeaseSpec:
    lease = fenced()
    first = lease.services[0].model_copy(update={"image": "docker.io/a/xmrig:6"})
    return lease.model_copy(update={"services": (first, *lease.services[1:])})


def judged(book: RuleBook, lease: LeaseSpec, **options: Any) -> list[tuple[str, Level, str]]:
    found = book.judge(lease_objects(lease), lease=facts_of(lease), **options)
    return [(each.rule, each.level, each.exempted) for each in found]


def test_no_file_is_every_rule_at_its_own_level() -> None:
    assert [(each.id, each.level) for each in read_book(None).rules] == [(each.id, each.level) for each in RULES]
    assert judged(read_book(None), fenced()) == [] and weakened(read_book(None)) == []


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("images: {deny: ['*xmrig*']}", "denied-image"),
        ("images: {deny_miners: true}", "denied-image"),
        ("images: {allow: ['quay.io/ovrclk/*', 'ghcr.io/*']}", "allowed-image"),
    ],
)
def test_a_list_of_images_refuses_a_miner_and_is_no_fence(tmp_path: Path, text: str, rule: str) -> None:
    book = read_book(file(tmp_path, text))
    assert judged(book, mining()) == [(rule, Level.MANDATORY, "")]
    assert judged(book, fenced()) == []
    assert judged(book, mining(), fences=True) == [], "what ran before the list goes on running and is repaired"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("hostnames: {deny: ['*.localhost']}", "denied-hostname"),
        ("addresses: {ranges: [203.0.113.0/24, 198.51.100.1-198.51.100.9]}", "address-in-range"),
        ("storage: {classes: [default, beta3]}", "known-storage-class"),
    ],
)
def test_lists_of_hostnames_addresses_and_classes_refuse_what_is_not_in_them(
    tmp_path: Path, text: str, rule: str
) -> None:
    assert {found[0] for found in judged(read_book(file(tmp_path, text)), fenced())} == {rule}


@pytest.mark.parametrize(
    ("pattern", "denied"),
    [("bank.example.com", True), ("*.bank.example.com", True), ("*.com", True), ("example.com", False)],
)
def test_a_wildcard_that_covers_a_denied_hostname_is_denied(tmp_path: Path, pattern: str, denied: bool) -> None:
    lease = fenced()
    wildcard = lease.hostnames[0].model_copy(update={"hostname": "*.example.com"})
    book = read_book(file(tmp_path, f"hostnames: {{deny: ['{pattern}']}}"))
    assert bool(judged(book, lease.model_copy(update={"hostnames": (wildcard,)}))) is denied


@pytest.mark.parametrize("text", ["addresses: {ranges: [192.0.2.0/29]}", "addresses: {ranges: [192.0.2.7-192.0.2.7]}"])
def test_an_address_of_the_ranges_is_leased(tmp_path: Path, text: str) -> None:
    assert judged(read_book(file(tmp_path, text)), fenced()) == []


def test_further_annotations_and_labels_are_allowed_with_their_patterns(tmp_path: Path) -> None:
    text = "annotations: {allow: {example.com/team: '[a-z]+'}}\nlabels: {allow: [example.com/team]}"
    objects = [dict(item) for item in lease_objects(fenced())]
    meta = objects[0]["metadata"]
    objects[0]["metadata"] = meta | {"annotations": {"example.com/team": "red"}}
    objects[0]["metadata"]["labels"] = meta["labels"] | {"example.com/team": "red"}
    assert {found.rule for found in RuleBook().judge(objects)} == {"known-annotations", "known-labels"}
    book = read_book(file(tmp_path, text))
    assert book.judge(objects) == ()
    objects[0]["metadata"]["annotations"]["example.com/team"] = "red;"
    assert [found.rule for found in book.judge(objects)] == ["known-annotations"]


def test_a_level_of_the_file_holds_and_a_weaker_one_is_known(tmp_path: Path) -> None:
    book = read_book(file(tmp_path, "levels: {ephemeral-storage-limit: advisory, fixed-version: mandatory}"))
    bare = fenced().model_copy(update={"services": (service(ephemeral_request_bytes=0, ephemeral_limit_bytes=0),)})
    assert ("ephemeral-storage-limit", Level.ADVISORY, "") in judged(book, bare)
    assert weakened(book) == ["ephemeral-storage-limit"]


def exempting(tmp_path: Path, owner: str = OWNER, until: str = "") -> RuleBook:
    exemption = f"{{owner: {owner}, rules: [denied-image], reason: agreed{until}}}"
    return read_book(file(tmp_path, f"images: {{deny: ['*xmrig*']}}\nexemptions: [{exemption}]"))


@pytest.mark.parametrize("with_facts", [True, False])
def test_an_exemption_makes_a_rule_advisory_for_its_owner_only_and_says_so(tmp_path: Path, with_facts: bool) -> None:
    lease = mining()
    facts = facts_of(lease) if with_facts else None
    own = exempting(tmp_path).judge(lease_objects(lease), lease=facts)
    assert [(each.rule, each.level, each.exempted) for each in own] == [("denied-image", Level.ADVISORY, "agreed")]
    others = exempting(tmp_path, owner="akash1other00").judge(lease_objects(lease), lease=facts)
    assert [each.level for each in others] == [Level.MANDATORY]


@pytest.mark.parametrize(("day", "level"), [(30, Level.ADVISORY), (31, Level.ADVISORY), (1, Level.MANDATORY)])
def test_an_exemption_ends_after_its_last_day(tmp_path: Path, day: int, level: Level) -> None:
    book = exempting(tmp_path, until=", until: 2027-01-31")
    today = date(2027, 2, 1) if day == 1 else date(2027, 1, day)
    later = RuleBook(book.rules, book.exemptions, today=lambda: today)
    assert [found[1] for found in judged(later, mining())] == [level]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("image: {}", "image: there is no such key (did you mean images?)"),
        ("images: {dney: [a]}", "images.dney: there is no such key (did you mean deny?); known are allow, deny"),
        ("exemptions: [{owner: akash1abcdef, rule: [a], reason: b}]", "exemptions.0.rule: there is no such key (did"),
        ("exemptions: [{owner: me, rules: [a], reason: b}]", "exemptions.0.owner: string should match"),
        ("exemptions: [{owner: akash1abcdef, rules: [a]}]", "exemptions.0.reason: field required"),
        ("levels: {quota: never}", "levels.quota: input should be 'advisory' or 'mandatory', not 'never'"),
        ("levels: {quotas: advisory}", "levels.quotas: there is no rule quotas (did you mean quota?)"),
        (
            "exemptions: [{owner: akash1abcdef, rules: [isolate], reason: b}]",
            "exemptions.0.rules: there is no rule",
        ),
        ("addresses: {ranges: [all]}", "addresses.ranges.0: is neither a network such as"),
        ("addresses: {ranges: [192.0.2.9-192.0.2.1]}", "addresses.ranges.0: is neither a network such as"),
        ("annotations: {allow: {a: '['}}", "annotations.allow.a: is no regular expression"),
        ("images: {deny: ['']}", "images.deny.0: string should have at least 1 character"),
        ("- a", "the file: input should be a valid dictionary"),
        ("a: [", "it is no YAML"),
        ("rules: [absent.py]", "absent.py is wrong: it cannot be read: No such file"),
    ],
)
def test_what_is_wrong_in_the_file_is_named_with_its_place_and_the_nearest_name(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(PolicyFileError) as refused:
        read_book(file(tmp_path, text))
    assert problem in str(refused.value)


def test_a_file_that_does_not_exist_or_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyFileError, match="cannot be read: No such file"):
        read_choices(tmp_path / "absent.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(PolicyFileError, match="cannot be read"):
        read_choices(tmp_path / "binary.yaml")


def test_an_empty_file_chooses_nothing(tmp_path: Path) -> None:
    assert read_choices(file(tmp_path, "# nothing\n")) == PolicyChoices()


def test_the_choices_reach_a_worker_as_json() -> None:
    choices = PolicyChoices.model_validate({"levels": {"quota": "advisory"}})
    assert PolicyChoices.model_validate_json(choices.model_dump_json()) == choices
    assert weakened(rule_book(choices)) == ["quota"]


def test_the_examples_of_the_documentation_are_right(tmp_path: Path) -> None:
    text = PAGE.read_text()
    (choices,), (rules,) = (re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("yaml", "python"))
    file(tmp_path, rules, "own_rules.py")
    book = read_book(file(tmp_path, choices))
    (rule,) = own_rules(tmp_path / "own_rules.py")
    assert rule.id in {each.id for each in book.rules}
    assert weakened(book) == [] and len(book.exemptions) == 1
