"""Commands in an enclosure: two at once, signals at awkward moments, and what a killed command leaves."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from devnet.children import alive
from devnet.errors import EnclosureFailed
from devnet.node import Enclosure, own_enclosure
from devnet.node.enclosure import first_process
from devnet.node.session import run_enclosed, temporary_folder

RUN = "import sys; from pathlib import Path; from devnet.node.session import run_enclosed\n"
RUN += "sys.exit(run_enclosed(Path(sys.argv[1]), ['sh', '-c', 'echo started; exec sleep 600']))"
CLEANING = """
import sys; from pathlib import Path; from devnet.node.session import run_enclosed
script = "trap 'sleep 0.5; echo cleaned > $0; exit 5' INT; echo started; while :; do sleep 0.05; done"
sys.exit(run_enclosed(Path(sys.argv[1]), ["sh", "-c", script, sys.argv[1] + "-note"]))
"""
"""The command cleans up when it hears SIGINT, which takes a moment, and then ends with status 5."""
HEARING = """
import sys; from pathlib import Path; from devnet.node.session import run_enclosed
code = "import signal, time; signal.signal(2, signal.SIG_DFL); print('started', flush=True); time.sleep(600)"
sys.exit(run_enclosed(Path(sys.argv[1]), [sys.executable, "-c", code]))
"""
"""The command hears SIGINT even if its parent ignores it."""
RUN_TEMPORARY = "from devnet.node.session import run_enclosed, temporary_folder\n"
RUN_TEMPORARY += "with temporary_folder() as folder: run_enclosed(folder, ['sh', '-c', 'echo started; exec sleep 600'])"


@pytest.fixture(autouse=True)
def cleared(folder: Path) -> Iterator[None]:
    """No test leaves the cgroups of a command that it has killed."""
    yield
    Enclosure.stop_in(folder)


@contextmanager
def running(*argv: object) -> Iterator[subprocess.Popen[bytes]]:
    """A Python program whose command runs inside when this returns."""
    code = [sys.executable, "-c", *map(str, argv)]
    with subprocess.Popen(code, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"started\n"
            yield process
        finally:
            process.kill()
            process.wait()


def cgroups(folder: Path) -> list[Path]:
    return [Path(line) for line in (folder / "cgroups").read_text().splitlines()]


def comes_true(what: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not what() and time.monotonic() < deadline:
        time.sleep(0.01)
    return what()


def test_a_second_command_in_the_same_folder_is_refused_and_the_first_goes_on(folder: Path) -> None:
    with running(RUN, folder) as process:
        first = first_process(folder)
        (folder / "data").write_text("of the first")
        with pytest.raises(EnclosureFailed, match="already"):
            run_enclosed(folder, ["true"])
        assert (first_process(folder), (folder / "data").read_text()) == (first, "of the first")
        assert process.poll() is None


def test_a_folder_with_files_of_somebody_else_is_left_alone(folder: Path) -> None:
    folder.mkdir()
    (folder / "thesis.txt").write_text("three years")
    with pytest.raises(EnclosureFailed, match="holds other files than those of an earlier enclosure"):
        run_enclosed(folder, ["true"])
    assert (folder / "thesis.txt").read_text() == "three years"


def test_an_earlier_commands_files_are_gone(folder: Path) -> None:
    assert run_enclosed(folder, ["touch", str(folder / "earlier")]) == 0
    assert (folder / "earlier").exists()
    assert run_enclosed(folder, ["true"]) == 0
    assert not (folder / "earlier").exists()


@pytest.mark.parametrize(
    "numbers", [(signal.SIGHUP,), (signal.SIGTERM, signal.SIGTERM), (signal.SIGTERM, signal.SIGHUP)]
)
def test_a_signal_even_a_second_one_during_the_end_leaves_nothing(folder: Path, numbers: tuple[int, ...]) -> None:
    with running(RUN, folder) as process:
        first, made = first_process(folder), cgroups(folder)
        for number in numbers:
            process.send_signal(number)
            time.sleep(0.1)
        assert process.wait(timeout=30) == 128 + numbers[0]
    assert not alive(first) and not any(path.exists() for path in made)


def test_a_command_under_nohup_goes_on_when_its_terminal_goes_away(folder: Path) -> None:
    ignoring = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    with running(ignoring + RUN, folder) as process:
        process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        assert process.poll() is None and first_process(folder)
        process.terminate()
        assert process.wait(timeout=30) == 143


def test_a_sent_interrupt_reaches_the_command_which_ends_in_its_own_order(folder: Path) -> None:
    with running(CLEANING, folder) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 5
    assert Path(f"{folder}-note").read_text() == "cleaned\n"


def test_a_background_job_that_inherited_an_ignored_interrupt_passes_a_sent_one_on(folder: Path) -> None:
    ignoring = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    with running(ignoring + HEARING, folder) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 128 + signal.SIGINT


def test_the_terminals_interrupt_reaches_the_command_once_and_nothing_cuts_its_end_short(folder: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", CLEANING, str(folder)])
    with open(terminal, "r+b", buffering=0) as stream:  # noqa: PTH123  a descriptor
        while b"started" not in stream.read(64):
            pass
        stream.write(b"\x03")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
    assert Path(f"{folder}-note").read_text() == "cleaned\n"


def test_the_environment_makes_no_process_believe_that_it_is_inside(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LESSOR_ENCLOSURE", str(folder))
    with pytest.raises(EnclosureFailed, match="this process is outside"):
        own_enclosure()
    print_own = "from devnet.node import own_enclosure; print(own_enclosure())"
    with Enclosure.start(folder) as enclosure:
        argv = enclosure.command([sys.executable, "-c", print_own])
        assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip() == str(folder)


def test_the_mark_of_an_enclosure_does_not_count_in_another_network(folder: Path) -> None:
    ask = "from devnet.node import is_enclosed; print(is_enclosed())"
    with Enclosure.start(folder) as enclosure:
        for prefix, answer in ((), "True"), (("unshare", "--net"), "False"):
            argv = enclosure.command([*prefix, sys.executable, "-c", ask])
            assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip() == answer


@pytest.mark.parametrize("kind", ["hidden", "removed"])
def test_a_current_folder_that_is_not_there_inside_is_named(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    place = Path(f"/run/lessor-test-{os.getpid()}") if kind == "hidden" else tmp_path / "removed"
    place.mkdir()
    with Enclosure.start(folder) as enclosure:
        monkeypatch.chdir(place)
        if kind == "removed":
            place.rmdir()
        assert enclosure.run(["true"]) == 1
        monkeypatch.chdir(tmp_path)
    assert "does not serve inside (No such file or directory); change to another one" in capfd.readouterr().err
    if kind == "hidden":
        place.rmdir()


def test_the_owner_of_a_control_plane_outside_is_not_named_inside_where_it_cannot_be_seen(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LESSOR_DEVNET_OWNER", str(os.getpid()))
    assert run_enclosed(folder, ["sh", "-c", '[ -z "$LESSOR_DEVNET_OWNER" ] && [ "$PYTHONPATH" ]']) == 0


def test_a_command_that_does_not_exist_is_named(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_enclosed(folder, ["no-such-command"]) == 127
    assert capfd.readouterr().err == "no-such-command: No such file or directory\n"


def test_the_end_of_a_joined_commands_parent_ends_the_command(folder: Path) -> None:
    with Enclosure.start(folder) as enclosure:
        argv = enclosure.command(["sh", "-c", "echo started; exec sleep 654"])
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.readline() == b"started\n"
            process.kill()
        search = enclosure.command(["sh", "-c", "! grep -zlx 654 /proc/[0-9]*/cmdline"])
        assert comes_true(lambda: subprocess.call(search, stdout=subprocess.DEVNULL) == 0)


def test_an_interrupt_during_the_start_ends_the_command(folder: Path) -> None:
    hearing = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background job ignores it
    code = [sys.executable, "-c", hearing + RUN, str(folder)]
    with subprocess.Popen(code, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert comes_true((folder / "cgroups").exists)
            process.send_signal(signal.SIGINT)
            printed, _ = process.communicate(timeout=40)
        finally:
            process.kill()
    assert printed == b"", "the command was not started"
    assert process.returncode and not any(path.exists() for path in cgroups(folder))


def test_a_start_right_after_a_kill_waits_for_the_end_of_the_killed_one(folder: Path) -> None:
    with running(RUN, folder) as process:
        made = cgroups(folder)
        process.kill()
        process.wait()  # the kernel gives the lock back with the end of the process
        assert run_enclosed(folder, ["true"]) == 0
    assert not any(path.exists() for path in made)


def test_the_next_command_clears_the_temporary_folder_and_the_cgroups_of_a_killed_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with running(RUN_TEMPORARY) as process:
        with temporary_folder():
            (left,) = [path for path in folder.iterdir() if (path / "enclosure" / "first").exists()]
        first, made = first_process(left / "enclosure"), cgroups(left / "enclosure")
        process.kill()
    assert made and comes_true(lambda: not alive(first))  # any other enclosure that starts removes its cgroups
    with temporary_folder() as next_one:
        assert list(folder.iterdir()) == [next_one.parent]
    assert not any(path.exists() for path in made) and not list(folder.iterdir())


def test_a_folder_of_another_user_is_no_list_of_cgroups_to_remove(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, planted = folder / "empty", folder / "lessor-enclosure-planted" / "enclosure"
    for path in (victim, planted):
        path.mkdir(parents=True)
    (planted / "enclosure.log").touch()
    (planted / "cgroups").write_text(f"{victim}\n")
    os.chown(planted.parent, 65534, 65534)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with temporary_folder():
        assert victim.is_dir() and planted.is_dir()
    os.chown(planted.parent, 0, 0)
    with temporary_folder():
        assert victim.is_dir(), "a path outside of the cgroups' mount is never removed"


@pytest.mark.parametrize("place", ["/run", "/var/log", "/var/lib/kubelet"])
def test_a_folder_that_the_enclosure_would_hide_is_refused_with_the_reason(folder: Path, place: str) -> None:
    hidden = Path(place) / f"lessor-test-{os.getpid()}"
    try:
        with pytest.raises(EnclosureFailed, match=f"inside an enclosure {place} is another folder"):
            Enclosure.start(hidden)
        assert not hidden.exists()
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def test_a_folder_that_cannot_be_made_is_named(folder: Path) -> None:
    folder.write_text("a file")
    with pytest.raises(EnclosureFailed, match=str(folder)):
        run_enclosed(folder, ["true"])


def test_a_command_whose_enclosure_is_stopped_by_somebody_else_says_so(folder: Path) -> None:
    code = "import sys; from pathlib import Path; from devnet.errors import EnclosureStopped\n"
    code += "from devnet.node.session import run_enclosed\n"
    code += "try: run_enclosed(Path(sys.argv[1]), ['sh', '-c', 'echo started; exec sleep 600'])\n"
    code += "except EnclosureStopped as stopped: print(stopped); sys.exit(3)\n"
    with running(code, folder) as process:
        assert Enclosure.stop_in(folder)
        assert process.wait(timeout=30) == 3
        assert process.stdout is not None and process.stdout.read() == b"stopped by `lessor devnet down`\n"
    assert run_enclosed(folder, ["true"]) == 0, "the next one was not stopped"
