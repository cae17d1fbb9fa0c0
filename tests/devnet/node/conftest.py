"""Enclosures for the tests of this folder, where the machine can have one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from devnet.node import missing_requirements


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for an enclosure. The test is skipped where the machine cannot have one, and fails there on CI."""
    if problems := missing_requirements(build=False):
        refuse = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        refuse("; ".join(problems))
    return tmp_path / "enclosure"
