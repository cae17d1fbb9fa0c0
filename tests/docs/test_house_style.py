"""The rules of CONTRIBUTING.md that can be counted, and the imports that import-linter cannot see."""

from __future__ import annotations

import ast
import re
import statistics
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from provider.cli.commands import COMMANDS
from provider.cli.lazy_group import CommandEntry, Table

CHECKOUT = Path(__file__).parents[2]
CONFIGURATION = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
PACKAGES = ("lease", "components", "policies", "stacks", "provider", "devnet")
SHORT = {"__init__.py", "__main__.py", "errors.py"}
NOT_A_NAME = {"manager", "managers", "helper", "helpers", "util", "utils"}
BY_NAME = {
    "policies/own_rules.py": "spec_from_file_location",
    "provider/cli/lazy_group.py": "import_module",
    "stacks/common/listener_guard.py": "run_path",
}
"""Modules that may import by a name in a text: `provider.cli.commands` is the table of those names, and the guard runs
`peers.py` beside it without the project's packages. An operator's own rules are a file that the settings name.
"""
MODULE = re.compile(rf"(?:{'|'.join(PACKAGES)})(?:\.\w+)+(?::\w+)?")


pytestmark = pytest.mark.xdist_group("house-style")  # the modules are parsed once


@cache
def trees() -> dict[str, tuple[str, ast.Module]]:
    """Path below the checkout to text and syntax tree, of every module of the packages."""
    paths = sorted(path for package in PACKAGES for path in (CHECKOUT / package).rglob("*.py"))
    texts = {path.relative_to(CHECKOUT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    return {name: (text, ast.parse(text)) for name, text in texts.items()}


def functions() -> Iterator[tuple[str, int]]:
    for name, (_, tree) in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{name}:{node.name}", (node.end_lineno or 0) - node.lineno + 1


def test_no_function_has_more_than_50_lines():
    found = dict(functions())
    assert {name: lines for name, lines in found.items() if lines > 50} == {}
    assert len(found) > 3000


def test_functions_have_at_most_8_lines_in_the_median_and_20_in_nine_cases_of_ten():
    lines = sorted(length for _, length in functions())
    assert statistics.median(lines) <= 8
    assert lines[len(lines) * 9 // 10] <= 20


def test_a_module_has_20_to_400_lines():
    lengths = {name: len(text.splitlines()) for name, (text, _) in trees().items()}
    may_be_short = {name for name in lengths if name.rpartition("/")[2] in SHORT or "/migrations/" in name}
    assert {name: length for name, length in lengths.items() if length > 400} == {}
    assert {name: length for name, length in lengths.items() if length < 20 and name not in may_be_short} == {}


def test_no_module_is_called_manager_helper_or_util():
    assert {name for name in trees() if NOT_A_NAME & set(re.split(r"[/_.]", name))} == set()


def test_a_module_has_all_or_a_leading_underscore():
    exempt = {"__init__.py", "__main__.py"}
    without = {
        name
        for name, (text, _) in trees().items()
        if "__all__" not in text and not name.rpartition("/")[2].startswith("_") and "/migrations/" not in name
    }
    assert {name for name in without if name.rpartition("/")[2] not in exempt} == set()


def called(tree: ast.Module) -> set[str]:
    """Names of functions that a module calls or imports, which load a module by a text."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return names & {"import_module", "__import__", "spec_from_file_location", "run_module", "run_path", "exec", "eval"}


def test_modules_are_imported_by_a_name_in_a_text_in_one_place():
    """import-linter reads import statements, also those inside functions and of types, but no texts."""
    found = {name: ", ".join(sorted(called(tree))) for name, (_, tree) in trees().items() if called(tree)}
    assert found == BY_NAME


def entries(table: Table) -> Iterator[CommandEntry]:
    for entry in table.values():
        if isinstance(entry, CommandEntry):
            yield entry
        else:
            yield from entries(entry.commands)


def test_the_table_of_commands_names_commands_only():
    targets = [name for entry in entries(COMMANDS) for name in (entry.target, entry.before) if name]
    assert [target for target in targets if not target.startswith(("provider.cli.", "devnet.cli."))] == []
    assert len(targets) > 20


def test_no_text_of_the_provider_s_packages_names_a_module_of_the_devnet():
    named = {
        name
        for name, (_, tree) in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and MODULE.fullmatch(node.value)
        if node.value.startswith("devnet.") and not name.startswith("devnet/")
    }
    assert named == {"provider/cli/commands.py"}


def test_import_linter_ignores_nothing():
    """Neither an import by name, nor types, nor a package that no contract knows."""
    assert "exclude_type_checking_imports" not in CONFIGURATION
    assert [each["name"] for each in CONFIGURATION["contracts"] if "ignore_imports" in each] == []
    assert tuple(sorted(CONFIGURATION["root_packages"])) == tuple(sorted(PACKAGES))
    packages = {path.parent.name for path in CHECKOUT.glob("*/__init__.py")}
    assert packages - {*PACKAGES, "tests", "proto", "benchmarks"} == set()


@pytest.mark.parametrize(
    ("contract", "folder"),
    [(each["name"], container) for each in CONFIGURATION["contracts"] for container in each.get("containers", ())],
)
def test_a_contract_of_layers_leaves_no_part_out(contract: str, folder: str):
    [found] = [each for each in CONFIGURATION["contracts"] if each["name"] == contract]
    assert found.get("exhaustive") is True
    assert (CHECKOUT / folder.replace(".", "/")).is_dir()
