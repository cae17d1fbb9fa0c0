"""`lessor sdl`: what it prints, and where it points."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lease.sdl import read_sdl
from provider.cli import build_app


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(build_app(), ["sdl", *map(str, arguments)])


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


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    result = run("check", tmp_path / "absent.yaml")
    assert result.exit_code == 1
    assert "absent.yaml: No such file" in result.stderr
    assert run("check", tmp_path).exit_code == 1
