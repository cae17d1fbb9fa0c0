"""docs/architecture.md describes what exists: paths, and nothing that is only planned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
TEXT = (CHECKOUT / "docs" / "architecture.md").read_text(encoding="utf-8")
PLANNED = ("Challenges of ACME by DNS", "LeaseRPC")
CODE = re.compile(r"`([^`\n]+)`")
SURE = re.compile(r"^\w[\w./-]*/$|/[\w.-]+\.(?:py|md|toml|yaml|go|proto)$")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def paths(text: str) -> set[str]:
    """Code that looks like a path: a folder with its slash, a file by its suffix, or a name in the checkout."""
    tops = {path.name for path in CHECKOUT.iterdir()}
    words = {word for code in CODE.findall(FENCED.sub("", text)) for word in code.split()}
    words |= {word for block in FENCED.findall(text) for word in block.split()}
    found = {word for word in words if re.fullmatch(r"[\w.-]+(/[\w.-]+)*/?", word)}
    return {
        word for word in found if SURE.search(word) or (word.split("/")[0] in tops and ("/" in word or "." in word))
    }


def test_every_path_exists() -> None:
    named = paths(TEXT)
    assert sorted(path for path in named if not (CHECKOUT / path).exists()) == []
    assert len(named) > 20


def test_every_part_of_the_provider_is_named() -> None:
    packages = {path.parent.name for path in (CHECKOUT / "provider").glob("*/__init__.py")}
    assert {package for package in packages if f"`provider/{package}/`" not in TEXT} == set()


@pytest.mark.parametrize("word", PLANNED)
def test_what_is_planned_is_in_the_other_document(word: str) -> None:
    lines = [line for line in TEXT.splitlines() if word.lower() in line.lower() and "planned.md" not in line]
    assert lines == []
    assert word.lower() in (CHECKOUT / "docs" / "planned.md").read_text(encoding="utf-8").lower()


def test_no_issue_is_cited() -> None:
    documents = [*(CHECKOUT / "docs").glob("*.md"), *(CHECKOUT / "docs" / "decisions").glob("*.md")]
    cited = {path.name: re.findall(r"\bissues? [A-Z0-9]+\b", path.read_text(encoding="utf-8")) for path in documents}
    assert {name: found for name, found in cited.items() if found} == {}


def test_the_index_of_decisions_is_complete() -> None:
    folder = CHECKOUT / "docs" / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    records = sorted(path for path in folder.glob("*.md") if path.name != "README.md")
    for number, path in enumerate(records, 1):
        title = path.read_text(encoding="utf-8").splitlines()[0]
        assert re.match(rf"{number:04}-[a-z0-9-]+\.md", path.name)
        assert f"| {number} | [{title.removeprefix(f'# {number}. ')}]({path.name}) |" in index


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see `provider/chain/` and `docs/planned.md`", {"provider/chain/", "docs/planned.md"}),
        ("`Pulumi.yaml`, `lease`, `default/kubernetes`, `make test`", {"Pulumi.yaml"}),
        ("`python -m tests/gone.py`", {"tests/gone.py"}),
        ("`gone/`, `gone/part.py`, `akash.network/true`, `v2/v1`", {"gone/", "gone/part.py"}),
    ],
)
def test_paths_are_seen(text: str, found: set[str]) -> None:
    assert paths(text) == found
