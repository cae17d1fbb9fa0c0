"""Hooks of the site: documents beside `docs/` become pages, and links that leave the site become names of files.

A document links as it does in a checkout, so that a reader of the repository and a reader of the site have one text.
MkDocs calls `on_config`, `on_files` and `on_page_markdown` (mkdocs.yml).
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

CHECKOUT = Path(__file__).parents[2]
PAGES = {
    f"{source}.md": f"{page}.md"
    for source, page in (
        ("README", "index"),
        ("CONTRIBUTING", "contributing"),
        ("CHANGELOG", "changelog"),
        ("SECURITY", "reporting"),
        ("benchmarks/RESULTS", "benchmarks"),
    )
}
"""Documents of the checkout that stand outside `docs/`, each with its page."""
SOURCES = {page: source for source, page in PAGES.items()}
LISTED = ("decisions/", "protocol/")
"""Folders whose pages the navigation lists without naming each of them: the title is the document's first line."""

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s:]+)\)")
_FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """The navigation with the pages of the `LISTED` folders, README first."""
    for section in config.nav:
        _list_folders(section)
    return config


def on_files(files: Files, config: Any) -> Files:
    """All files of `docs/`, and the documents of `PAGES`."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(CHECKOUT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: Any, files: Files) -> str:
    """The text with the site's links. A link to a file that does not exist stays, and MkDocs refuses it."""
    here = _source_of(page.file.src_uri)
    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(lambda m: _linked(m, here), part) for part in parts)


def _list_folders(section: dict[str, Any]) -> None:
    for title, entry in section.items():
        if isinstance(entry, list):
            for child in entry:
                if isinstance(child, dict):
                    _list_folders(child)
        elif entry in LISTED:
            section[title] = _pages_of(entry)


def _pages_of(folder: str) -> list[str]:
    names = sorted(path.name for path in (CHECKOUT / "docs" / folder).glob("*.md") if path.name != "README.md")
    return [f"{folder}README.md", *(folder + name for name in names)]


def _source_of(page: str) -> str:
    return SOURCES.get(page, f"docs/{page}")


def _linked(match: re.Match[str], here: str) -> str:
    """One link of the document `here` (a path in the checkout)."""
    text, (target, _, anchor) = match[1], match[2].partition("#")
    if not target:
        return match[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
    page = PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
    if page is None:
        return f"{text} (`{path}`)" if (CHECKOUT / path).exists() else match[0]
    own = PAGES.get(here) or here.removeprefix("docs/")
    relative = posixpath.relpath(page, str(PurePosixPath(own).parent))
    return f"[{text}]({relative}{'#' + anchor if anchor else ''})"
