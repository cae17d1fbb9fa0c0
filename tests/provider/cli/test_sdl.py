"""`lessor sdl`: what it prints, and where it points."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from typer.main import get_command

from lease.exit_codes import USAGE
from lease.sdl import read_sdl
from provider.cli import build_app
from tests.lease.documents import BASE, DEFAULTS

_COMMAND = get_command(build_app())
"""Built once: that takes longer than any document."""


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(_COMMAND, ["sdl", *map(str, arguments)])  # type: ignore[arg-type]


@pytest.fixture
def example(checkout: Path) -> Path:
    return checkout / "examples" / "web.yaml"


def test_check_says_that_a_good_document_is_valid(example: Path) -> None:
    result = run("check", example)
    assert result.exit_code == 0
    assert "valid" in result.stdout


def test_hash_manifest_and_groups_print_what_a_client_sends(example: Path) -> None:
    sdl = read_sdl(example.read_bytes())
    assert run("hash", example).stdout == sdl.version.hex() + "\n"
    assert json.loads(run("manifest", example).stdout)[0]["services"][0]["name"] == "web"
    assert json.loads(run("groups", example).stdout)[0]["name"] == "cluster"


def test_check_shows_the_line_and_a_caret_under_the_value(tmp_path: Path, example: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(example.read_text().replace("size: 128Mi", "size: 128MiB"))
    result = run("check", path)
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    shown = next(index for index, line in enumerate(lines) if "size: 128MiB" in line)
    assert lines[shown + 1].index("^") == lines[shown].index("128MiB")
    assert "21:17: error:" in lines[shown - 1]
    assert lines[-1] == "1 finding"


def test_every_command_refuses_a_bad_document_on_standard_error(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_bytes(b"version: [\xff")
    for command in ("check", "hash", "manifest", "groups"):
        result = run(command, path)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "not Unicode" in result.stderr


def test_a_tenants_text_cannot_steer_the_terminal(tmp_path: Path, example: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(example.read_text().replace("image: docker", 'image: "\\e[2J"\n    env: "\x9b[2J" # docker'))
    result = run("check", path)
    assert result.exit_code == 1
    assert "\x1b" not in result.stderr
    assert "\x9b" not in result.stderr


@pytest.mark.parametrize("command", ["check", "hash", "manifest", "groups"])
def test_a_file_that_cannot_be_read_is_named_in_one_line_with_code_2(command: str, tmp_path: Path) -> None:
    for path, why in ((tmp_path / "absent.yaml", "No such file"), (tmp_path, "Is a directory")):
        result = run(command, path)
        assert (result.exit_code, result.stdout) == (2, "")
        assert why in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_several_files_are_checked_and_the_worst_decides_the_code(tmp_path: Path, example: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("version: '1.0'")
    assert run("check", example, example).exit_code == 0
    result = run("check", example, wrong, example)
    assert result.exit_code == 1
    assert result.stdout.count("valid;") == 2
    assert f'{wrong}:1:10: error: unsupported version "1.0.0"' in result.stderr
    assert run("check", wrong, tmp_path, example).exit_code == 2
    assert run("check").exit_code == USAGE


def test_a_document_comes_from_standard_input(example: Path) -> None:
    result = CliRunner().invoke(_COMMAND, ["sdl", "check", "-"], input=example.read_bytes())  # type: ignore[arg-type]
    assert (result.exit_code, result.stdout) == (0, "-: valid; 1 service in cluster\n")
    result = CliRunner().invoke(_COMMAND, ["sdl", "check", "-"], input=b"")  # type: ignore[arg-type]
    assert result.exit_code == 1
    assert "-:1:1: error: uninitialized" in result.stderr


def test_standard_input_that_is_closed_or_asked_for_twice_is_one_line() -> None:
    command = f"{shlex.quote(sys.executable)} -c 'from provider.cli import main; main()' sdl check - <&-"
    closed = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (closed.returncode, len(closed.stderr.splitlines())) == (2, 1)
    assert "standard input is closed" in closed.stderr
    twice = CliRunner().invoke(_COMMAND, ["sdl", "check", "-", "-"], input=b"")  # type: ignore[arg-type]
    assert twice.exit_code == USAGE
    assert "given twice" in twice.stderr


def test_a_hundred_megabytes_are_refused_without_being_read(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    with path.open("wb") as stream:
        stream.truncate(100 * 1024 * 1024)
    before = bytes_read()
    result = run("check", path)
    assert result.exit_code == 1
    assert result.stderr == f"{path}: more than 1048576 bytes; no SDL is that long\n"
    assert bytes_read() - before < 2 * 1024 * 1024


def bytes_read() -> int:
    """What this process has read from files and pipes (proc_pid_io(5))."""
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.parametrize(
    ("content", "where", "text"),
    [
        (b"\x7fELF\x02\x01\0\0\xff", "1:9", "not Unicode"),
        (b"version: '2.0'\nservices: \0\n", "2:11", "not YAML: "),
        (b"a: b\nversion: caf\xe9\n", "2:13", "not Unicode"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "1:1", "not Unicode"),
    ],
)
def test_a_binary_file_is_one_clear_error(tmp_path: Path, content: bytes, where: str, text: str) -> None:
    path = tmp_path / "binary"
    path.write_bytes(content)
    result = run("check", path)
    lines = result.stderr.splitlines()
    assert result.exit_code == 1
    assert lines[0].startswith(f"{path}:{where}: error: the document is " if "Unicode" in text else f"{path}:{where}: ")
    assert text in lines[0]
    assert lines[-1] == "1 finding"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_the_line_is_shown_whatever_the_encoding_and_the_line_breaks(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "wide.yaml"
    path.write_bytes('version: "2.0"\r\nservices: {\u4f60\u597d: [x]}\r\n'.encode(encoding))
    lines = run("check", path).stderr.splitlines()
    shown = next(index for index, line in enumerate(lines) if "\u4f60" in line)
    before = lines[shown][: lines[shown].index("[x]")]
    assert lines[shown + 1].index("^") == len(before) + 2, "two characters take two cells each"


def test_every_corpus_document_prints_its_expected_hash_manifest_and_groups(
    any_sdl: tuple[str, bytes, dict[str, Any]],
) -> None:
    name, text, expected = any_sdl
    results = {
        command: CliRunner().invoke(_COMMAND, ["sdl", command, "-"], input=text)  # type: ignore[arg-type]
        for command in ("hash", "manifest", "groups")
    }
    if not expected["valid"]:
        assert {result.exit_code for result in results.values()} == {1}, name
        assert {result.stdout for result in results.values()} == {""}
        return
    assert results["hash"].stdout == f"{expected['version']}\n"
    assert json.loads(results["manifest"].stdout) == expected["manifest"]
    assert json.loads(results["groups"].stdout) == expected["groups"]


WITHOUT_EFFECT = {
    "the key globl has no effect here; did you mean global?": {"to": "global: true, globl: true"},
    "the key accept has no effect here; it belongs to expose": {"service": "accept: [a.com],"},
    "the key zzz has no effect here": {"expose": "zzz: 1,"},
}


@pytest.mark.parametrize("warning", WITHOUT_EFFECT)
def test_check_warns_of_keys_without_an_effect_and_names_the_nearest(warning: str, tmp_path: Path) -> None:
    path = tmp_path / "web.yaml"
    path.write_text(BASE.format(**{**DEFAULTS, **WITHOUT_EFFECT[warning]}))
    result = run("check", path)
    assert (result.exit_code, "valid;" in result.stdout) == (1, True), result.output
    assert f"warning: {warning}" in result.stderr
    assert result.stderr.endswith("1 warning\n")


REFUSED_LATER = {
    "external port 70000 must be": {"expose": "as: 70000,"},
    "is an IP address": {"expose": "accept: [192.0.2.1],"},
    "a meaning of its own to Pulumi": {"service": "args: [04da6b54-80e4-46f7-96ec-b56ff0331ba9],"},
}


@pytest.mark.parametrize("problem", REFUSED_LATER)
def test_check_warns_of_what_a_provider_will_refuse(problem: str, tmp_path: Path) -> None:
    path = tmp_path / "web.yaml"
    path.write_text(BASE.format(**{**DEFAULTS, **REFUSED_LATER[problem]}))
    result = run("check", path)
    assert (result.exit_code, "valid;" in result.stdout) == (1, True), result.output
    assert "warning: a provider will refuse it" in result.stderr
    assert problem in result.stderr


@pytest.mark.parametrize("name", ["absent.yaml", "."])
def test_check_and_render_agree_on_the_code_of_a_file_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    rendered = CliRunner().invoke(_COMMAND, ["render", str(tmp_path / name)])  # type: ignore[arg-type]
    assert rendered.exit_code == run("check", tmp_path / name).exit_code == 2
