"""`lessor doctor` and the settings of NVIDIA's container toolkit."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from devnet.gpu_toolkit import toolkit_problems
from lease.exit_codes import FINDING
from provider.cli import build_app

UNPRIVILEGED = "accept-nvidia-visible-devices-envvar-when-unprivileged"
MOUNTS = "accept-nvidia-visible-devices-as-volume-mounts"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", [f"{UNPRIVILEGED} is not set", f"{MOUNTS} is not set"]),
        (f"{UNPRIVILEGED} = true\n{MOUNTS} = true", [f"{UNPRIVILEGED} is true"]),
        (f"{UNPRIVILEGED} = false\n{MOUNTS} = false", [f"{MOUNTS} is false"]),
        (f'{UNPRIVILEGED} = "false"\n{MOUNTS} = true', [f'{UNPRIVILEGED} is "false"']),
        (f"{UNPRIVILEGED} = false\n{MOUNTS} = true\n[nvidia-container-cli]\nuser = 'x'", []),
        ("= not toml", ["cannot be read"]),
    ],
)
def test_settings_that_let_containers_choose_cards_are_named(tmp_path: Path, text: str, named: list[str]) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    found = toolkit_problems(file)
    assert len(found) == len(named)
    assert all(words in line for words, line in zip(named, found, strict=True))


def test_a_machine_without_the_toolkit_has_no_problem(tmp_path: Path) -> None:
    assert toolkit_problems(tmp_path / "none.toml") == ()


def test_the_doctor_shows_them_as_a_finding(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("")
    shown = CliRunner().invoke(build_app(), ["doctor", "--gpu-toolkit", str(file)])
    hidden = CliRunner().invoke(build_app(), ["doctor", "--gpu-toolkit", str(tmp_path / "none")])
    assert f"GPU: {file}: {UNPRIVILEGED} is not set" in shown.output
    assert "GPU:" not in hidden.output
    assert shown.exit_code == FINDING
