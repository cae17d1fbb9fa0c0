"""`lessor policy list`, `test` and `audit`: the rules as this provider applies them, an operator's own, and what breaks
them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from lease.exit_codes import FINDING
from lease.printable import printable_line
from policies.book import RuleBook, read_book, weakened
from policies.errors import PolicyFileError
from policies.own_rules import own_rules
from policies.rules import Domain, Level, Manifest, Objects, Rule
from policies.running import recorded as recorded_manifests
from provider.cli.home import settings_of_home
from provider.cli.input_file import read_input
from provider.cli.output import Output, OutputOption, failure, print_result, table_lines, warn
from provider.daemon.backends import engine_config, policy_book
from provider.errors import ProviderError, SettingsError
from provider.kube.client import KubeCluster
from provider.observe.policy_audit import (
    CLUSTER_STACK,
    Audit,
    Finding,
    audit_cluster_stack,
    audit_recorded,
    audit_running,
)
from provider.settings import Settings, load_settings
from stacks.engine import EngineError, recorded_objects, recorded_stacks

__all__ = ["audit", "list_", "test"]

_LARGEST = 8 << 20


def list_(*, output: OutputOption = Output.TABLE) -> None:
    """List every rule with its level, and every exemption.

    Levels, lists and exemptions are those of LESSOR_POLICY_FILE. A rule that the file makes weaker is marked.

    Example: `lessor policy list --output yaml`
    """
    try:
        book = policy_book(load_settings())
    except SettingsError as error:
        raise failure(error) from None
    print_result(_document(book), _lines(book), output)


def _document(book: RuleBook) -> dict[str, Any]:
    weaker = set(weakened(book))
    fields = ("id", "topic", "level", "severity", "fence", "reason", "remedy")
    return {
        "rules": [
            {name: getattr(rule, name) for name in fields} | {"weakened": rule.id in weaker} for rule in book.rules
        ],
        "exemptions": [each.model_dump(mode="json") for each in book.exemptions],
    }


def _lines(book: RuleBook) -> Iterator[str]:
    weaker = set(weakened(book))
    rows = [
        (rule.topic, rule.id, f"{rule.level}{' (weakened)' if rule.id in weaker else ''}", rule.severity, rule.reason)
        for rule in book.rules
    ]
    yield from table_lines(rows, header=("TOPIC", "RULE", "LEVEL", "SEVERITY", "REASON"))
    yield ""
    if not book.exemptions:
        yield "no exemptions"
    for each in book.exemptions:
        until = f" until {each.until}" if each.until else ""
        yield f"exempted{until}: {each.owner} from {', '.join(each.rules)}: {each.reason}"


def test(
    file: Annotated[Path, typer.Argument(help="A policy file (YAML), or a file of own rules (.py).", metavar="FILE")],
    objects: Annotated[
        list[str] | None,
        typer.Argument(help="Kubernetes objects as YAML to judge; - reads standard input.", metavar="OBJECTS"),
    ] = None,
    *,
    cluster: Annotated[bool, typer.Option("--cluster", help="OBJECTS are the cluster stack's, not a lease's.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check a policy file or a file of own rules, and judge objects with it.

    Each own rule has to keep its examples `keeps` and break its examples `breaks`. Exit code 1: an example is judged
    otherwise, or an object breaks a mandatory rule; 78: the file is wrong.

    Example: `lessor policy test policies.yaml`
    """
    try:
        with file.open("rb"):  # no file at all is no wrong setting
            pass
    except OSError as error:
        raise failure(f"cannot read {file}: {error.strerror}") from None
    try:
        book = _book(file)
    except PolicyFileError as error:
        raise failure(SettingsError(str(error))) from None
    wrong = [text for rule in book.rules if rule.topic == "own" for text in _examples(rule)]
    own = sum(rule.topic == "own" for rule in book.rules)
    broken = [found for each in objects or () for found in _judged(book, each, cluster=cluster)]
    counts = {"rules": len(book.rules), "own": own, "exemptions": len(book.exemptions)}
    text = f"{counts['rules']} rules, {own} of them own, {counts['exemptions']} exemptions"
    print_result({**counts, "wrong_examples": wrong, "broken": broken}, [text], output)
    for text in [*wrong, *broken] if output is Output.TABLE else ():
        typer.secho(printable_line(text), fg=typer.colors.RED)
    if wrong or broken:
        raise typer.Exit(FINDING)


def _book(file: Path) -> RuleBook:
    """The rules with the file: its choices, or its own rules."""
    if file.suffix == ".py":
        return RuleBook((*RuleBook().rules, *own_rules(file)))
    return read_book(file)


def _examples(rule: Rule) -> Iterator[str]:
    if not rule.keeps or not rule.breaks:
        warn(f"rule {rule.id} has no example of what {'keeps' if not rule.keeps else 'breaks'} it")
    for number, example in enumerate(rule.keeps, 1):
        for problem in rule.check(Objects([example])):
            yield f"rule {rule.id}: example {number} of `keeps` breaks it: {problem.text}"
    for number, example in enumerate(rule.breaks, 1):
        if not list(rule.check(Objects([example]))):
            yield f"rule {rule.id}: example {number} of `breaks` does not break it"


def _judged(book: RuleBook, name: str, *, cluster: bool) -> list[str]:
    """The mandatory violations in the objects of a file. Advisory ones are printed as warnings."""
    found = book.judge(_objects(name), domain=Domain.CLUSTER if cluster else Domain.LEASE)
    for each in found:
        if each.level is Level.ADVISORY:
            warn(f"advisory: {each}")
    return [str(each) for each in found if each.mandatory]


def _objects(name: str) -> Sequence[Manifest]:
    try:
        documents = list(yaml.safe_load_all(read_input(name, limit=_LARGEST)))
    except (OSError, yaml.YAMLError) as error:
        raise failure(f"cannot read {name}: {_one_line(error)}") from None
    found: list[Manifest] = []
    for document in documents:
        items = document.get("items") if isinstance(document, Mapping) and "items" in document else [document]
        found += [item for item in items or () if isinstance(item, Mapping)]
    return found


def audit(
    *,
    recorded: Annotated[bool, typer.Option(help="Judge the recorded state of the stacks.")] = True,
    running: Annotated[bool, typer.Option(help="Judge what runs in the cluster.")] = True,
    cluster_stack: Annotated[
        str,
        typer.Option(
            help="State of the cluster stack as `pulumi stack export` prints it; - reads standard input.",
            metavar="FILE",
        ),
    ] = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Judge the recorded state of all stacks, what runs in the namespaces of leases, and the cluster stack.

    Whatever runs there is judged, whoever made it. Run the command where the provider runs, with its settings. The
    objects of the cluster stack are read where the kubeconfig allows it, as an administrator's does. Exit code 1: a
    mandatory rule is broken; 2: the cluster or a state cannot be read.

    Example: `lessor policy audit --output json`
    """
    try:
        settings = settings_of_home() if recorded else load_settings()
        book = policy_book(settings)
        found = list(_audit_stacks(settings, book)) if recorded else []
        found += _audit_export(book, cluster_stack) if cluster_stack else []
        ran, stack = asyncio.run(_audit_cluster(settings, book)) if running else (Audit((), 0), Audit((), 0))
    except (ProviderError, EngineError) as error:
        raise failure(error) from None
    findings = [*found, *ran.findings, *stack.findings]
    if stack.unread:
        warn(f"the cluster stack's objects were not judged, since the account may not list {', '.join(stack.unread)}")
    if ran.unread:
        warn(f"not judged, since the account may not list them: {', '.join(ran.unread)}")
    print_result([_finding(each) for each in findings], _finding_lines(findings), output)
    if any(each.violation.mandatory for each in findings):
        raise typer.Exit(FINDING)


def _audit_stacks(settings: Settings, book: RuleBook) -> Iterator[Finding]:
    config = engine_config(settings)
    return audit_recorded(book, recorded_stacks(config), lambda stack: recorded_objects(config, stack))


def _audit_export(book: RuleBook, name: str) -> list[Finding]:
    """The violations in an export of the cluster stack's state."""
    try:
        document = json.loads(read_input(name, limit=_LARGEST))
        resources = (document.get("deployment") or {}).get("resources") or ()
        objects = list(recorded_manifests(resources))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise failure(f"cannot read {name}: {_one_line(error)}") from None
    judged = book.judge(objects, domain=Domain.CLUSTER)
    return [Finding(CLUSTER_STACK, "recorded", violation) for violation in judged]


def _one_line(error: Exception) -> str:
    return " ".join(str(getattr(error, "strerror", None) or error).split())


async def _audit_cluster(settings: Settings, book: RuleBook) -> tuple[Audit, Audit]:
    cluster = KubeCluster(settings.kubeconfig)
    try:
        ran = await audit_running(book, cluster, records=settings.manifest_namespace)
        return ran, await audit_cluster_stack(book, cluster)
    finally:
        await cluster.aclose()


def _finding(found: Finding) -> dict[str, str]:
    return {"namespace": found.namespace, "source": found.source, **asdict(found.violation)}


def _finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    for each in findings:
        exempted = f" (exempted: {each.violation.exempted})" if each.violation.exempted else ""
        yield f"{each.violation.level} {each.source} {each.namespace}: {each.violation}{exempted}"
    broken = sum(each.violation.mandatory for each in findings)
    yield f"{broken} mandatory and {len(findings) - broken} advisory violations"
