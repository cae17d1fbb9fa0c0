"""The rules as an operator has chosen them: levels, lists, own rules and exemptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path

from lease.spec import FORM
from policies.addresses import leased_ranges
from policies.annotations import known_annotations
from policies.choices import Exemption, PolicyChoices, nearest, read_choices
from policies.errors import PolicyFileError
from policies.facts import LeaseFacts
from policies.hostnames import denied_hostnames
from policies.images import MINERS, allowed_images, denied_images
from policies.judge import RULES, judge
from policies.labels import known_labels
from policies.own_rules import own_rules
from policies.rules import Domain, Level, Manifest, Objects, Rule, Violation
from policies.storage import known_classes

__all__ = ["RuleBook", "read_book", "rule_book", "weakened"]


def _utc_today() -> date:
    return datetime.now(UTC).date()


@dataclass(frozen=True, slots=True)
class RuleBook:
    """All rules with their levels. An exemption makes a mandatory rule advisory for one owner."""

    rules: tuple[Rule, ...] = RULES
    exemptions: tuple[Exemption, ...] = ()
    today: Callable[[], date] = field(default=_utc_today, compare=False)

    def judge(
        self,
        manifests: Iterable[Manifest],
        *,
        form: int = FORM,
        lease: LeaseFacts | None = None,
        domain: Domain = Domain.LEASE,
        fences: bool = False,
    ) -> tuple[Violation, ...]:
        """The violations. `fences`: only of the rules that also guard what runs already (`Rule.fence`)."""
        objects = tuple(manifests)
        rules = (rule for rule in self.rules if rule.fence) if fences else self.rules
        found = judge(objects, rules, form=form, lease=lease, domain=domain)
        return tuple(self._exempted(found, objects, lease)) if found and self.exemptions else found

    def without(self, *rules: str) -> RuleBook:
        """The same book without the rules of these ids."""
        return replace(self, rules=tuple(rule for rule in self.rules if rule.id not in rules))

    def _exempted(
        self, found: Iterable[Violation], objects: Sequence[Manifest], lease: LeaseFacts | None
    ) -> Iterator[Violation]:
        owners = {lease.owner} if lease else set(Objects(objects).lease_namespaces.values())
        held = {
            rule: each.reason
            for each in self.exemptions
            if owners == {each.owner} and (each.until is None or self.today() <= each.until)
            for rule in each.rules
        }
        for one in found:
            exempted = one.mandatory and one.rule in held
            yield replace(one, level=Level.ADVISORY, exempted=held[one.rule]) if exempted else one


def read_book(path: Path | None, *, images_denied: Sequence[str] = ()) -> RuleBook:
    """The rules with the choices of the file at `path`, if there is one. Raises `PolicyFileError`."""
    if path is None:
        return rule_book(PolicyChoices(), images_denied=images_denied)
    choices = read_choices(path)
    own = [rule for each in choices.rules for rule in own_rules(each)]
    book = rule_book(choices, own, images_denied=images_denied)
    if problems := list(_unknown(choices, book)):
        raise PolicyFileError(path, problems)
    return book


def rule_book(choices: PolicyChoices, own: Sequence[Rule] = (), *, images_denied: Sequence[str] = ()) -> RuleBook:
    """The rules with these choices. `images_denied`: further patterns of images that are not run."""
    lists = {"known-annotations": known_annotations(choices.annotations.allow)}
    lists["known-labels"] = known_labels(choices.labels.allow)
    fixed = (replace(lists.get(rule.id, rule), topic=rule.topic) for rule in RULES)
    rules = (*fixed, *_chosen(choices, images_denied), *own)
    levelled = tuple(replace(rule, level=choices.levels.get(rule.id, rule.level)) for rule in rules)
    return RuleBook(levelled, choices.exemptions)


def weakened(book: RuleBook) -> list[str]:
    """The ids of rules that are mandatory by themselves and advisory by the operator's choice."""
    advisory = {rule.id for rule in book.rules if rule.level is Level.ADVISORY}
    return [rule.id for rule in RULES if rule.level is Level.MANDATORY and rule.id in advisory]


def _chosen(choices: PolicyChoices, images_denied: Sequence[str]) -> Iterator[Rule]:
    """The rules that exist only by a list of the operator."""
    images = choices.images
    if denied := (*images.deny, *images_denied, *(MINERS if images.deny_miners else ())):
        yield denied_images(denied)
    if images.allow:
        yield allowed_images(images.allow)
    if choices.hostnames.deny:
        yield denied_hostnames(choices.hostnames.deny)
    if choices.addresses.ranges:
        yield leased_ranges(choices.addresses.ranges)
    if choices.storage.classes:
        yield known_classes(choices.storage.classes)


_BY_A_LIST = ("denied-image", "allowed-image", "denied-hostname", "address-in-range", "known-storage-class")


def _unknown(choices: PolicyChoices, book: RuleBook) -> Iterator[str]:
    known = {rule.id for rule in book.rules} | set(_BY_A_LIST)
    named = [(f"levels.{name}", name) for name in choices.levels]
    for number, exemption in enumerate(choices.exemptions):
        named += [(f"exemptions.{number}.rules", name) for name in exemption.rules]
    for place, name in named:
        if name not in known:
            yield f"{place}: there is no rule {name}{nearest(name, sorted(known))}"
    ids = [rule.id for rule in book.rules]
    for name in sorted({name for name in ids if ids.count(name) > 1}):
        yield f"rules: two rules have the id {name}"
