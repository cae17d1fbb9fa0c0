"""The cgroups of an enclosure: below the caller's own, so that its limits hold, and gone when the processes are."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from devnet.node.cgroups import enter_cgroups, make_cgroups, remove_abandoned_cgroups, remove_cgroups


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


def test_two_commands_may_remove_the_same_ones_at_once(cgroups: list[Path]) -> None:
    """`lessor devnet down` and the command that it stops do."""
    for number in range(400):
        (cgroups[0] / f"pod{number}" / "container").mkdir(parents=True)
    with subprocess.Popen(
        ["find", cgroups[0], "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"], stderr=subprocess.DEVNULL
    ) as other:
        assert remove_cgroups(cgroups) == []
        other.wait()
    assert not any(folder.exists() for folder in cgroups)


def test_one_that_still_holds_a_process_is_named(cgroups: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devnet.node.cgroups._REMOVAL_S", 0.1)
    with sleeper(cgroups[:1]) as process:
        try:
            assert remove_cgroups(cgroups) == cgroups[:1]
        finally:
            process.kill()


def prefix() -> str:
    return f"lessor-test-abandoned-{os.getpid()}-"


MAKE = "import sys; from devnet.node.cgroups import make_cgroups; made = make_cgroups(sys.argv[1])\n"
MAKE += "(made[0] / 'kubepods').mkdir(); print(*made, flush=True); sys.stdin.read()"


@contextmanager
def maker(folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[Path]]]:
    """A process that has made cgroups, with one below the first, and these cgroups."""
    argv = [sys.executable, "-c", MAKE, f"{prefix()}{folder.name}"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        made = [Path(path) for path in process.stdout.readline().split()]
        try:
            yield process, made
        finally:
            process.kill()
            process.wait()
            remove_cgroups(made)


def test_those_of_a_killed_maker_are_removed_although_nothing_records_them(folder: Path) -> None:
    with maker(folder) as (process, made):
        process.kill()
        process.wait()
        assert all(path.is_dir() for path in made)
        remove_abandoned_cgroups(prefix())
        assert not any(path.exists() for path in made)


def test_those_of_a_maker_that_runs_are_left_although_no_process_is_in_them_yet(folder: Path) -> None:
    with maker(folder) as (_, made):
        remove_abandoned_cgroups(prefix())
        assert all(path.is_dir() for path in (*made, made[0] / "kubepods"))


def test_those_that_hold_a_process_are_left_although_their_maker_was_killed(folder: Path) -> None:
    """A version that held no lock may have made them."""
    with maker(folder) as (process, made), sleeper([made[0] / "kubepods"]) as inside:
        process.kill()
        process.wait()
        remove_abandoned_cgroups(prefix())
        assert (made[0] / "kubepods").is_dir() and not any(path.exists() for path in made[1:])
        inside.kill()


def test_other_cgroups_are_left(cgroups: list[Path]) -> None:
    remove_abandoned_cgroups("lessor-other-")
    assert all(path.is_dir() for path in cgroups)
