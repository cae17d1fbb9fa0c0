"""What a killed `lessor diff` or `lessor pulumi` leaves behind is removed by the next one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from stacks.common.scratch_folders import scratch
from tests.world.processes import start_process


def _dead() -> int:
    process = start_process([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_folder_goes_at_the_end_and_one_of_the_dead_at_the_next_beginning(tmp_path: Path) -> None:
    left = tmp_path / f"lessor-diff-{_dead()}-abc"
    (left / "engine").mkdir(parents=True)
    with scratch("lessor-diff-", within=tmp_path) as folder:
        assert folder.is_dir()
        assert folder.name.startswith(f"lessor-diff-{os.getpid()}-")
        assert not left.exists()
    assert list(tmp_path.iterdir()) == []


def test_what_belongs_to_a_living_process_or_is_none_of_ours_stays(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "precious").mkdir(parents=True)
    dead = _dead()
    stays = [tmp_path / name for name in (f"operator-{os.getppid()}-a", "operator-x-a", "operator-", "other-1-a")]
    for folder in stays:
        folder.mkdir()
    link, file = tmp_path / f"operator-{dead}-link", tmp_path / f"operator-{dead}-file"
    link.symlink_to(elsewhere)
    file.write_text("")
    with scratch("operator-", within=tmp_path):
        pass
    assert all(path.exists() for path in (*stays, link, file, elsewhere / "precious"))


def test_one_that_is_killed_is_cleaned_up_after(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, signal, sys; from stacks.common.scratch_folders import scratch\n"
        "with scratch('operator-', within=pathlib.Path(sys.argv[1])): os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert done.returncode < 0
    assert len(list(tmp_path.iterdir())) == 1
    with scratch("operator-", within=tmp_path):
        assert len(list(tmp_path.iterdir())) == 1
