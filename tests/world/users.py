"""Other users of the machine: programs that a test runs as somebody else, and what those can then read."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

import pytest

WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
__all__ = ["STRANGER", "WITHOUT_RIGHTS", "as_same_user_without_rights", "as_stranger", "needs_root"]

STRANGER = 65534
"""The user `nobody`, who owns nothing here."""
needs_root = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")


def as_stranger(argv: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
    """The program as another user, in `/`."""
    return _run(argv, user=STRANGER, group=STRANGER, extra_groups=[], cwd="/", **options)


def as_same_user_without_rights(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """The program as this user without root's capabilities, as any program of an ordinary user runs."""
    return _run([*WITHOUT_RIGHTS, *argv])


def _run(argv: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60, **options)  # type: ignore[call-overload,no-any-return]
