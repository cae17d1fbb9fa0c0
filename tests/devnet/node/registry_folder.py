"""A folder of images whose programs are small files of ours: nothing has to be built for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from devnet.node.images import write_images

__all__ = ["PROGRAMS", "written_images"]

PROGRAMS = ("standin", "edge", "coredns", "metallb-speaker")


def written_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, name: str = "images") -> Path:
    """The folder, after `write_images`; busybox is a script that lists two applets."""
    tools = tmp_path / "tools"
    tools.mkdir(exist_ok=True)
    for program in PROGRAMS:
        (tools / program).write_text(f"#!/bin/sh\n# {program}\n")
    (tools / "busybox").write_text("#!/bin/sh\nprintf 'busybox\\nls\\nsh\\n'\n")
    (tools / "busybox").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    folder = tmp_path / name
    write_images(folder, {program: tools / program for program in PROGRAMS})
    return folder
