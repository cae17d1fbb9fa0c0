"""What the command line says to wrong input: one line that says what to do, an exit code, never a traceback."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from lease.exit_codes import FINDING, SETTINGS, TROUBLE, USAGE
from provider.cli import build_app
from provider.cli.run import ending
from provider.errors import ChainError, SettingsError, StoreError

LESSOR = Path(sys.executable).with_name("lessor")


@pytest.fixture
def checkout() -> Path:
    return Path(__file__).resolve().parents[3]


def lessor(*arguments: str, cwd: Path, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("AP_", "AKASH_", "LESSOR_"))}
    wide = {"COLUMNS": "500"}  # a box would break a long path anywhere
    return subprocess.run(
        [str(LESSOR), *arguments],
        cwd=cwd,
        env=plain | wide | env,
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
    )


def said(done: subprocess.CompletedProcess[bytes]) -> str:
    """Both streams with the boxes' line breaks taken out."""
    text = (done.stdout + done.stderr).decode()
    assert "Traceback" not in text
    return " ".join(text.replace("│", " ").split())


def test_a_command_runs_with_collections_although_it_is_imported_without(checkout: Path) -> None:
    """`lessor run` runs for months."""
    seen = []
    gc.disable()
    try:
        CliRunner().invoke(build_app(), ["sdl", "hash", str(checkout / "examples" / "web.yaml")])
        seen.append(gc.isenabled())
    finally:
        gc.enable()
        gc.unfreeze()
    assert seen == [True]


def test_an_sdl_comes_from_standard_input_too(tmp_path: Path, checkout: Path) -> None:
    sdl = (checkout / "examples" / "web.yaml").read_bytes()
    done = lessor("sdl", "hash", "-", cwd=tmp_path, stdin=sdl)
    assert (done.returncode, len(done.stdout.strip())) == (0, 64)


def test_the_demo_outside_a_checkout_says_where_to_start_it(tmp_path: Path) -> None:
    done = lessor("demo", cwd=tmp_path)
    assert done.returncode == USAGE
    assert "checkout" in said(done)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--api-server-endpoint", "kubernetes"),
        ("--api-server-endpoint", "192.0.2.1:99999"),
        ("--runtime-class", "a\nb"),
        ("--public-hostname", "two words"),
        ("--domain", "a b..c_"),
        ("--dseq", str(2**64)),
    ],
)
def test_render_refuses_what_no_cluster_would_have(checkout: Path, option: str, value: str) -> None:
    done = CliRunner().invoke(build_app(), ["render", str(checkout / "examples" / "web.yaml"), option, value])
    assert done.exit_code == USAGE
    assert option in done.output


@pytest.mark.parametrize("command", [["demo", "--sdl", "web.yaml"], ["devnet", "up"]])
@pytest.mark.parametrize("folder", ["/proc/nothing", "a-file"])
def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path, checkout: Path, command: list[str], folder: str) -> None:
    (tmp_path / "a-file").write_text("")
    (tmp_path / "web.yaml").write_bytes((checkout / "examples" / "web.yaml").read_bytes())
    done = lessor(*command, "--data", folder, cwd=tmp_path)
    assert done.returncode == TROUBLE
    assert folder in said(done)


@pytest.mark.parametrize(
    "command",
    [["sdl", "check"], ["sdl", "hash"], ["render"], ["bid", "explain", "--sdl"], ["diff", "--lease", "77"]],
)
@pytest.mark.parametrize("source", [pytest.param("/dev/zero", marks=pytest.mark.long), "-"])
def test_a_file_without_end_is_refused_after_a_few_megabytes(tmp_path: Path, command: list[str], source: str) -> None:
    argv = ["sh", "-c", 'ulimit -v 2000000; exec "$0" "$@"', str(LESSOR), *command, source]
    with Path("/dev/zero").open("rb") as endless:
        done = subprocess.run(argv, cwd=tmp_path, stdin=endless, capture_output=True, timeout=120, check=False)
    assert done.returncode == (TROUBLE if "diff" in command else FINDING)
    assert said(done)
    assert b"MemoryError" not in done.stderr


@pytest.mark.parametrize("command", [["--version"], ["--help"], ["settings"], ["sdl", "check", "examples/web.yaml"]])
def test_a_full_disk_behind_the_output_is_one_line(checkout: Path, command: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [str(LESSOR), *command], cwd=checkout, stdout=full, stderr=subprocess.PIPE, timeout=120, check=False
        )
    assert done.returncode == TROUBLE
    assert done.stderr.decode() == "lessor: No space left on device\n"


@pytest.mark.parametrize("command", [["sdl", "check"], ["render"], ["bid", "explain", "--sdl"]])
def test_no_argument_steers_the_terminal(tmp_path: Path, checkout: Path, command: list[str]) -> None:
    (tmp_path / "wrong.yaml").write_text('version: "\\e[31mred\\a"\nservices: {}\n')
    for argument in ("a\x1b[31mb\x07", str(tmp_path / "wrong.yaml")):
        done = CliRunner().invoke(build_app(), [*command, argument], env={"AP_HOME": str(tmp_path)})
        assert done.exit_code and done.output
        assert not {"\x1b", "\x07"} & set(done.output)


@pytest.mark.parametrize("home", ["/proc/nothing", "a-file/below"])
def test_a_home_that_cannot_be_written_is_a_wrong_setting(tmp_path: Path, home: str) -> None:
    (tmp_path / "a-file").write_text("")
    done = lessor("run", cwd=tmp_path, AP_HOME=home)
    assert done.returncode == SETTINGS
    assert f"AP_HOME={home}" in said(done)


@pytest.mark.parametrize(
    ("error", "code"), [(SettingsError("AP_X: wrong"), SETTINGS), (StoreError("database x: gone"), TROUBLE)]
)
def test_what_the_operator_can_put_right_is_one_line_however_deep_in_task_groups(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    async def loop() -> None:
        async with asyncio.TaskGroup() as outer:
            outer.create_task(inner())

    async def inner() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())

    async def fails() -> None:
        raise error

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(loop())
    end = ending(raised.value)
    assert isinstance(end, typer.Exit)
    assert end.exit_code == code
    assert capsys.readouterr().err.strip() == f"lessor: {error}"


def test_a_defect_of_ours_keeps_its_traceback() -> None:
    defect = ExceptionGroup("loops", [ChainError("node", "gone"), KeyError("x")])
    assert ending(defect) is defect
