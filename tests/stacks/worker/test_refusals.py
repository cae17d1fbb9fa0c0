"""Refusals that quote a secret do not stay in a stack's state, and the state stays what it was."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from stacks.worker.init_errors import hide_quotes

SECRET = "hunter2"


def checkpoint(*resources: dict[str, Any], pending: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    latest = {"resources": [{"urn": "a", "initErrors": []}, {"urn": "b"}, *resources], "pending_operations": pending}
    return {"version": 3, "checkpoint": {"stack": "s", "latest": latest}}


def written(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_messages_go_from_state_backup_and_history_and_nothing_else_does(tmp_path: Path) -> None:
    refused = {"urn": "c", "initErrors": [f"denied: {SECRET}", "and more"], "inputs": {"x": 1}}
    document = checkpoint(refused, pending=[{"type": "creating", "resource": refused}])
    names = ("stacks/lease/s.json", "stacks/lease/s.json.bak", "history/lease/s/s-1.checkpoint.json")
    files = [written(tmp_path / name, document) for name in names]
    clean = written(tmp_path / "stacks/lease/t.json", json.dumps(checkpoint(), indent=4))
    before = clean.read_text()
    assert hide_quotes(tmp_path) == 3
    for file in files:
        assert SECRET not in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        kept = json.loads(file.read_text())["checkpoint"]["latest"]
        assert [item["urn"] for item in kept["resources"]] == ["a", "b", "c"]
        assert kept["resources"][2]["inputs"] == {"x": 1}
        assert len(kept["resources"][2]["initErrors"]) == 1, "without any the engine would not try the object again"
    assert clean.read_text() == before
    assert hide_quotes(tmp_path) == 0, "what is hidden is not written again"


NO_CHECKPOINTS = (
    "",
    "{",
    '"initErrors"',
    '["initErrors"]',
    '{"checkpoint": "initErrors", "initErrors": 1}',
    '{"checkpoint": {"latest": {"resources": [{"initErrors": 5}, 3, "initErrors"]}}}',
    "[" * 100_000 + '"initErrors"',
)


@pytest.mark.parametrize("content", NO_CHECKPOINTS, ids=range(len(NO_CHECKPOINTS)))
def test_what_is_no_checkpoint_is_left_alone(tmp_path: Path, content: str) -> None:
    file = written(tmp_path / "stacks/lease/s.json", content)
    assert hide_quotes(tmp_path) == 0
    assert file.read_text() == content


def test_a_stack_without_files_is_fine(tmp_path: Path) -> None:
    assert hide_quotes(tmp_path / "nothing") == 0
