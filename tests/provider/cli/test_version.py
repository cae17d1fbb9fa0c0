"""`lessor --version` names the installed version, or the version of a checkout that is not installed."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from typer.testing import CliRunner

from provider.cli import build_app
from provider.cli.version import version

PROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"


def test_the_version_option_prints_one_line_and_runs_no_command() -> None:
    done = CliRunner().invoke(build_app(), ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"lessor {version()}\n")


def test_a_checkout_that_is_not_installed_has_the_version_of_its_project_file() -> None:
    def not_installed(_name: str) -> str:
        raise PackageNotFoundError

    assert version(not_installed) == tomllib.loads(PROJECT.read_text())["project"]["version"]
