"""Errors of the policies."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

__all__ = ["PolicyFileError"]


class PolicyFileError(Exception):
    """An operator's file of choices or of rules cannot be used. `problems`: each with its place in the file."""

    def __init__(self, path: Path, problems: Iterable[str]) -> None:
        self.path = path
        self.problems = tuple(problems)
        super().__init__(f"the policy file {path} is wrong: " + "; ".join(self.problems))
