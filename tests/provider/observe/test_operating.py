"""docs/operating.md explains every state and reason that an operator or a tenant can read: the code is searched."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from provider.lifecycle.health.pods import Trouble
from provider.lifecycle.state import Phase
from provider.observe.meanings import PODS, REASONS, STATES
from provider.observe.operating import CHECKS, FINDINGS, markdown

ROOT = Path(__file__).parents[3]
_NO_REASONS = (
    "control.py",
    "volume_restore.py",
    "loop.py",
    "manifest_wait.py",
    "additions.py",
    "drift.py",
    "rollouts.py",
)
"""Answers to operators' requests, and parts of other texts."""
_CALLS = {"Outcome", "Judgement", "Evidence", "Finding", "HostnameRefusedError", "AddressesExhaustedError"}
_NAMES = {"reason", "waits", "text", "why", "said", "more", "unknown", "left", "missing", "head"}


def skeletons(node: ast.expr) -> Iterator[str]:
    """The texts that an expression can be, with `*` for what is put in."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr():
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else "*" for each in node.values)
        case ast.IfExp():
            yield from (*skeletons(node.body), *skeletons(node.orelse))
        case ast.BinOp():
            yield from (*skeletons(node.left), *skeletons(node.right))


def written(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions that become a reason or a finding."""
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            yield from (*node.args, *(keyword.value for keyword in node.keywords))
        case ast.Call(func=ast.Name(id="replace")):
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "reason")
        case ast.Assign(targets=[ast.Name(id=name)]) if name in _NAMES:
            yield node.value
        case ast.Return(value=ast.expr() as value):
            yield value
        case ast.Assign(targets=[ast.Attribute(attr="text" | "problem")]):
            yield node.value


def reasons() -> dict[str, str]:
    """Every reason text in the code → where."""
    files = [path for path in (ROOT / "provider/lifecycle").rglob("*.py") if path.name not in _NO_REASONS]
    files += [ROOT / "provider/observe/findings.py", ROOT / "provider/market/advertised.py"]
    found = {}
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for text in (text for each in written(node) for text in skeletons(each)):
                if len(text.strip("*; :")) > 8 and " " in text.strip("*"):
                    found[text] = f"{path.relative_to(ROOT)}:{node.lineno}"  # type: ignore[attr-defined]
    return found


def texts() -> list[str]:
    return [row.text for row in (*REASONS, *FINDINGS)]


def covered(text: str) -> bool:
    return any(fnmatchcase(text, f"{row}*") for row in texts())


def test_every_reason_in_the_code_has_a_row() -> None:
    missing = {text: where for text, where in reasons().items() if not covered(text)}
    assert missing == {}, (
        "add a row to provider/observe/meanings.py (leases) or operating.py (findings), then `make docs`"
    )


def test_the_search_finds_the_reasons() -> None:
    found = reasons()
    assert len(found) > 40
    for text in ("repairing: *", "applied; waiting for the workloads", "no block has been read for * s"):
        assert text in found


@pytest.mark.parametrize(
    "text",
    [
        "it waits for evidence of the notice beside the answer of one node",
        "the wallet has 5uakt, a bid, and the fees to close and to withdraw, take 593750uakt: no more bids",
        "no free address for owner-x: ip-ranges (LESSOR_IP_RANGES) has 2",
        "the API server has not answered for more than 60 s: 401",
        "storage class beta3 is advertised and has no size (LESSOR_STORAGE_CLASSES)",
    ],
)
def test_texts_of_other_rooms_have_a_row(text: str) -> None:
    assert covered(text)


def test_every_state_every_trouble_of_a_pod_and_every_check_has_one_row() -> None:
    assert sorted(row.text for row in STATES) == sorted(phase.value for phase in Phase)
    assert sorted(row.text for row in PODS) == sorted(trouble.value for trouble in Trouble)
    assert sorted(row.text for row in CHECKS) == sorted(checks())


def checks() -> set[str]:
    """The names of the checks of an order, in the code."""
    found = set()
    for name in ("eligibility.py", "decision.py"):
        for node in ast.walk(ast.parse((ROOT / "provider/market" / name).read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="Check" | "_check"), args=[ast.Constant(value=str(check)), *_]):
                    found.add(check)
    return found


def test_no_row_is_there_twice() -> None:
    assert len(set(texts())) == len(texts())


def test_the_page_is_what_the_table_says() -> None:
    assert (ROOT / "docs" / "operating.md").read_text(encoding="utf-8") == markdown(), "run `make docs`"
