"""What source, tests and documents cite exists: the file, and the section where a number follows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
ROOMS = ("lease", "components", "policies", "stacks", "provider", "devnet", "tests", "benchmarks", "examples", "tools")
SUFFIXES = {".py", ".go", ".proto", ".toml", ".yaml", ".md"}

NAME = re.compile(r"[\w./:*-]*\Z")
NUMBER = r"§(\d+(?:\.\d+)*)"
NUMBERS = re.compile(rf"(?:\]\([^)]*)?\)?`?,?[\s#]+({NUMBER}(?:(?:\s*[,-]\s*|[\s#]+(?:and|to)[\s#]+){NUMBER})*)")
"""What follows a file's name: the end of a link or of code, then sections, perhaps in the next line of a comment."""
HEADING = re.compile(r"^#+ (\d+(?:\.\d+)*)\.? ", re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@cache
def texts() -> dict[str, str]:
    """Path below the checkout to text. Of the tests' data only its documents: what SDLs name is not ours."""
    paths = [path for room in (*ROOMS, "docs") for path in (CHECKOUT / room).rglob("*") if path.suffix in SUFFIXES]
    found = {path.relative_to(CHECKOUT).as_posix(): path for path in (*paths, CHECKOUT / "README.md")}
    data = {name for name in found if name.startswith("tests/data/") and not name.endswith((".md", ".py"))}
    return {name: path.read_text() for name, path in sorted(found.items()) if name not in data}


@cache
def documents() -> dict[str, list[str]]:
    """File name to the documents of that name, by their paths."""
    found: dict[str, list[str]] = {}
    for path in (*texts(), *(path.name for path in CHECKOUT.glob("*.md"))):
        if path.endswith(".md"):
            found.setdefault(path.rpartition("/")[2], []).append(path)
    return found


def named(name: str) -> list[str]:
    """Documents that a name may mean: `chain.md`, `docs/differences.md`."""
    paths = documents().get(name.rpartition("/")[2], [])
    return [path for path in paths if path == name or path.endswith(f"/{name}")]


@cache
def sections(document: str) -> set[str]:
    path = CHECKOUT / document
    return set(HEADING.findall(path.read_text()))


def citations(text: str) -> Iterator[tuple[str, list[str]]]:
    """Documents that a text names, each with the sections that follow. `repo:path` names one of another repository."""
    for match in re.finditer(r"\.md\b", text):
        found = NAME.search(text, max(0, match.start() - 100), match.start())
        name = f"{found.group() if found else ''}.md"
        if re.fullmatch(r"(?:\.\./)*(?:\w[\w-]*/)*\w[\w-]*\.md", name):
            numbers = NUMBERS.match(text, match.end(), match.end() + 150)
            yield name.replace("../", ""), re.findall(NUMBER, numbers[1]) if numbers else []


@cache
def cited() -> set[tuple[str, str, tuple[str, ...]]]:
    """Where, document, sections."""
    return {(where, name, tuple(numbers)) for where, text in texts().items() for name, numbers in citations(text)}


def test_every_document_that_is_named_exists():
    assert sorted({(where, name) for where, name, _ in cited() if not named(name)}) == []


def test_every_section_that_is_cited_exists():
    pairs = {(where, name, number) for where, name, numbers in cited() for number in numbers}
    missing = {each for each in pairs if not any(each[2] in sections(path) for path in named(each[1]))}
    assert sorted(missing) == []
    assert len(pairs) > 200


def test_every_link_of_a_document_leads_to_a_path_that_exists():
    links = [
        (where, target.partition("#")[0])
        for where, text in texts().items()
        if where.endswith(".md")
        for target in LINK.findall(CODE.sub("code", text))
        if not re.match(r"[a-z]+:|#", target)
    ]
    assert [each for each in links if not (CHECKOUT / each[0]).parent.joinpath(each[1]).exists()] == []
    assert len(links) > 20


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(chain.md §3 and §4.2)", [("chain.md", ["3", "4.2"])]),
        ("as `bidding.md` §2.1.", [("bidding.md", ["2.1"])]),
        ("docs/architecture.md, §2", [("docs/architecture.md", ["2"])]),
        ("gateway.md\n    # §3.4, §3.6", [("gateway.md", ["3.4", "3.6"])]),
        ("[it](protocol/gateway.md) §12", [("protocol/gateway.md", ["12"])]),
        ("chain.md alone. §9 of another", [("chain.md", [])]),
        ("`provider:_docs/pubsub.md`, {name}.md, https://example.com/README.md", []),
    ],
)
def test_citations_are_seen_in_every_form(text: str, found: list[tuple[str, list[str]]]):
    assert list(citations(text)) == found
