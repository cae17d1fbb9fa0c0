"""The language host under the stock command line, without a cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devnet.tools import Toolbox
from stacks.common.processes import alive
from tests.world.patience import PATIENCE_S
from tests.world.processes import start_process

HOST = Path(__file__).resolve().parents[3] / "tools" / "langhost" / "pulumi-language-python"
SLOW = "import os, pathlib, time\npathlib.Path('pid').write_text(f'{os.getpid()} {os.getppid()}')\ntime.sleep(3600)\n"


def pulumi(toolbox: Toolbox, folder: Path, env: dict[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    command = [str(toolbox.program("pulumi")), "--non-interactive", "--color", "never", *args]
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False
    )


@pytest.mark.devnet
def test_a_program_runs_with_its_configuration_and_its_output_is_shown(toolbox, project, cli):
    folder = project(
        "import pulumi\nprint('said by the program')\npulumi.export('colour', pulumi.Config().require('colour'))\n"
    )
    pulumi(toolbox, folder, cli, "stack", "init", "s")
    pulumi(toolbox, folder, cli, "config", "set", "colour", "--secret", "green")

    done = pulumi(toolbox, folder, cli, "up", "-s", "s", "--yes", "--skip-preview")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "said by the program" in done.stdout
    assert "[secret]" in done.stdout and "green" not in done.stdout, "secret configuration stays secret"
    assert pulumi(toolbox, folder, cli, "destroy", "-s", "s", "--yes", "--skip-preview").returncode == 0


@pytest.mark.devnet
def test_an_exception_is_shown_once_with_the_line_it_came_from(toolbox, project, cli):
    folder = project("def f():\n    raise ValueError('the text of the error')\nf()\n")
    pulumi(toolbox, folder, cli, "stack", "init", "s")

    done = pulumi(toolbox, folder, cli, "preview", "-s", "s")

    assert done.returncode != 0
    assert "ValueError: the text of the error" in done.stdout
    assert "__main__.py" in done.stdout and "line 2" in done.stdout
    assert "the program ended with" not in done.stdout, "the executor has shown it (exit 32): nothing is added"


@pytest.mark.devnet
@pytest.mark.parametrize(
    ("program", "word"),
    [("import sys; sys.exit(7)\n", "exit code 7"), ("import os; os.kill(os.getpid(), 9)\n", "signal SIGKILL")],
)
def test_a_program_that_just_ends_is_an_error_that_says_how(toolbox, project, cli, program, word):
    folder = project(program)
    pulumi(toolbox, folder, cli, "stack", "init", "s")

    done = pulumi(toolbox, folder, cli, "preview", "-s", "s")

    assert done.returncode != 0
    assert word in done.stdout + done.stderr


@pytest.mark.devnet
def test_about_names_the_interpreter_and_the_plugins_of_its_packages(toolbox, project, cli):
    done = pulumi(toolbox, project("import pulumi\n"), cli, "about")

    assert sys.executable in done.stdout
    assert "kubernetes" in done.stdout and "4.25.0" in done.stdout


@pytest.mark.devnet
def test_a_killed_command_line_leaves_neither_host_nor_program(toolbox, project, cli):
    folder = project(SLOW)
    pulumi(toolbox, folder, cli, "stack", "init", "s")
    command = [str(toolbox.program("pulumi")), "--non-interactive", "preview", "-s", "s"]
    child = start_process(command, cwd=folder, env=cli, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    program, host = eventually(lambda: [int(pid) for pid in read(folder / "pid").split()])

    child.send_signal(signal.SIGKILL)
    child.wait()

    eventually(lambda: not alive(program) and not alive(host))


def test_without_an_engine_it_says_that_pulumi_starts_it():
    done = subprocess.run([sys.executable, HOST], capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    assert done.returncode != 0
    assert "started by pulumi" in done.stderr


def test_an_interpreter_without_the_sdk_hands_over_to_the_one_it_is_told(tmp_path):
    env = {"PATH": os.environ["PATH"], "LESSOR_PYTHON": sys.executable}
    done = bare_python(tmp_path, env)

    assert "started by pulumi" in done.stderr, "the other interpreter got as far as reading arguments"


def test_with_no_usable_interpreter_the_remedy_is_named_and_nothing_loops(tmp_path):
    done = bare_python(tmp_path, {"PATH": os.environ["PATH"], "LESSOR_PYTHON": str(tmp_path / "absent")})

    assert done.returncode != 0
    assert "make setup" in done.stderr and "LESSOR_PYTHON" in done.stderr


def bare_python(folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The host under an interpreter that has no packages: `-S` would not survive the hand-over, an empty venv does."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "bare"], check=True, timeout=PATIENCE_S)
    command = [folder / "bare" / "bin" / "python", HOST]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def eventually(probe: Callable[[], Any], *, seconds: float = PATIENCE_S) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := probe()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return found
