"""The recorded machines."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from provider.operators.hardware.tree import Tree
from tests.data import DATA


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Tree]:
    """The tree of a recorded machine by the beginning of its name after `linux-`; unpacked once."""
    unpacked: dict[str, Tree] = {}

    def tree(name: str) -> Tree:
        if name not in unpacked:
            archive = min((DATA / "machines").glob(f"linux-{name}*.tar.gz"), key=lambda path: len(path.name))
            folder: Path = tmp_path_factory.mktemp("machine")
            with tarfile.open(archive) as tar:
                tar.extractall(folder, filter="tar")
            unpacked[name] = Tree(folder)
        return unpacked[name]

    return tree
