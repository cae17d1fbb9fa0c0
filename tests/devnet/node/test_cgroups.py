"""The cgroups of an enclosure: below the caller's own, so that its limits hold, and gone when the processes are."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devnet.node.cgroups import enter_cgroups, make_cgroups, remove_cgroups


@pytest.fixture
def cgroups(folder: Path) -> Iterator[list[Path]]:  # `folder` skips where there are none
    made = make_cgroups(f"lessor-test-{os.getpid()}")
    yield made
    remove_cgroups(made)


def sleeper(cgroups: list[Path]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "600"], preexec_fn=lambda: enter_cgroups(cgroups))  # noqa: PLW1509


def test_a_process_enters_every_hierarchy(cgroups: list[Path]) -> None:
    with sleeper(cgroups) as process:
        try:
            own = Path("/proc/self/cgroup").read_text().splitlines()
            for line in Path(f"/proc/{process.pid}/cgroup").read_text().splitlines():
                controller, path = line.split(":", 2)[1:]
                if any(folder.parts[4:] == Path(path).parts[1:] for folder in cgroups):
                    parent = next(each for each in own if each.split(":", 2)[1] == controller).split(":", 2)[2]
                    assert Path(path).parent == Path(parent), "a child of the caller's own"
            assert all(str(process.pid) in (folder / "cgroup.procs").read_text().split() for folder in cgroups)
        finally:
            process.kill()


def test_they_are_removed_with_all_below_them(cgroups: list[Path]) -> None:
    (cgroups[0] / "kubepods" / "pod1").mkdir(parents=True)
    assert remove_cgroups(cgroups) == []
    assert not any(folder.exists() for folder in cgroups)
    assert remove_cgroups(cgroups) == [], "a second time there is nothing to do"


def test_one_that_still_holds_a_process_is_named(cgroups: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devnet.node.cgroups._REMOVAL_S", 0.1)
    with sleeper(cgroups[:1]) as process:
        try:
            assert remove_cgroups(cgroups) == cgroups[:1]
        finally:
            process.kill()
