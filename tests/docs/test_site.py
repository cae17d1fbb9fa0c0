"""The site builds strictly: every page is in the navigation, and every link and anchor leads somewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "mkdocs.yml", "benchmarks/RESULTS.md")
MD = ".md"
"""Apart from the names that do not exist: another test looks for the documents that are named."""
LINKED = ("LICENSE", "tests/data/README.md", "tests/data/sdl/README.md")
"""What documents of the site link to outside of it."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the site is made of, to be spoiled."""
    for folder in ("docs", "tools/docs"):
        shutil.copytree(CHECKOUT / folder, tmp_path / folder)
    for name in (*DOCUMENTS, *LINKED, *(str(path.relative_to(CHECKOUT)) for path in recorded_readmes())):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, tmp_path / name)
    return tmp_path


def recorded_readmes() -> list[Path]:
    return sorted((CHECKOUT / "tests/data/recordings").glob("*/README.md"))


def built(checkout: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(checkout / "mkdocs.yml")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_the_site_is_built_without_a_warning(checkout: Path) -> None:
    result = built(checkout)
    assert result.returncode == 0, result.stderr
    pages = {path.parent.name for path in (checkout / "build/site").rglob("index.html")}
    assert {"tutorial", "install", "recovery", "settings", "metrics", "policies", "architecture"} <= pages


def test_broken_links_and_a_page_outside_of_the_navigation_are_named_and_fail(checkout: Path) -> None:
    broken = {
        "docs/install.md": f"[gone](no-such-page{MD}) [gone](settings.md#no-such-heading)",
        "README.md": f"[gone](docs/no-such-document{MD})",
        f"docs/unlisted{MD}": "# A page outside of the navigation",
    }
    for name, text in broken.items():
        with (checkout / name).open("a", encoding="utf-8") as file:
            file.write(f"\n{text}\n")
    result = built(checkout)
    assert result.returncode == 1
    for named in ("no-such-page", "no-such-heading", "no-such-document", "unlisted"):
        assert named in result.stderr
