"""The end of a daemon's term, as the processes of its engine read it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stacks.common import EngineConfig, EngineError, Operation, forget_term, refuse_after_term, term_is_over, write_term
from stacks.common.wire import Task
from stacks.worker.runner import Runner


def test_a_term_lasts_until_its_second_and_without_a_file_there_is_none(tmp_path: Path) -> None:
    assert not term_is_over(tmp_path)
    write_term(tmp_path, time.monotonic() + 1000)
    assert not term_is_over(tmp_path)
    write_term(tmp_path, time.monotonic() - 0.001)
    assert term_is_over(tmp_path)
    forget_term(tmp_path)
    forget_term(tmp_path)
    assert not term_is_over(tmp_path)


@pytest.mark.parametrize("text", ["", "soon", "1e9 another-boot", "\xff"])
def test_a_term_of_an_earlier_boot_or_one_that_cannot_be_read_is_over(tmp_path: Path, text: str) -> None:
    (tmp_path / "term").write_bytes(text.encode("latin-1"))
    assert term_is_over(tmp_path)
    with pytest.raises(EngineError, match="leads no longer"):
        refuse_after_term(tmp_path)


def _pulumi(folder: Path) -> Path:
    """A program that knows its version and notes any other use."""
    program = folder.parent / "pulumi"
    program.write_text('#!/bin/sh\n[ "$1" = version ] && echo v3.272.0 || echo "$@" >> "$0.used"\n')
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("operation", [Operation.DESTROY, Operation.REFRESH])
def test_a_worker_begins_nothing_after_the_term(tmp_path: Path, operation: Operation) -> None:
    config = EngineConfig(data=tmp_path, kubeconfig=tmp_path / "none", pulumi=_pulumi(tmp_path))
    write_term(tmp_path, 0.0)
    result = Runner(config).run(Task(operation=operation, stack="abc"))
    assert not result.ok and "leads no longer" in result.error
    assert [path.name for path in tmp_path.iterdir()] == ["term"]
    assert not (tmp_path.parent / "pulumi.used").exists()
