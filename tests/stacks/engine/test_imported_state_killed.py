"""A run of `lessor adopt` that is killed between any two writes of a stack's files: the next run loses nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from stacks.common.transit import TransitKey
from stacks.engine import EngineConfig, importing
from tests.stacks.engine.test_imported_state import a_spec, config_in, written

_HOST = """
import os, signal, sys
from pathlib import Path
from stacks.engine import importing
from tests.stacks.engine.test_imported_state import a_spec, config_in

WRITES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}

def child(folder, number):
    seen, config = 0, config_in(folder)

    def hook(event, arguments):
        nonlocal seen
        write = event in WRITES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT)
        if write and str(config.data) in str(arguments[0]):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    with importing(config) as import_stack:
        import_stack(a_spec())
    os._exit(0)

folder, again, number = Path(sys.argv[1]), sys.argv[2] == "again", 0
while True:
    number += 1
    place = folder / str(number)
    place.mkdir()
    if again:  # a whole run came before, and its state is written anew
        if not (pid := os.fork()):
            child(place, 0)
        assert os.waitpid(pid, 0)[1] == 0
    if not (pid := os.fork()):
        child(place, number)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != -signal.SIGKILL:
        break
print(number)
"""
_LEAST = 8
"""Writes of a run: folders, the key, the copy of the kubeconfig, settings, meta.yaml and the state, each a file that is
renamed.
"""


def _killed(folder: Path, *, again: bool) -> list[Path]:
    """A home for each write at which a run was killed, and one of a run that ended."""
    command = [sys.executable, "-c", _HOST, str(folder), "again" if again else "first"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": "."})
    return [folder / str(number) for number in range(1, int(done.stdout) + 1)]


def _comparable(state: dict[str, Any]) -> list[tuple[str, str]]:
    """Type and URN of each resource; times and ciphers differ from run to run."""
    return [(item["type"], item["urn"]) for item in state["checkpoint"]["latest"]["resources"]]


def _config(home: Path) -> EngineConfig:
    return EngineConfig(data=home / "engine", kubeconfig=home / "kubeconfig", pulumi=Path("/usr/bin/pulumi"))


def _check(home: Path, whole: list[tuple[str, str]]) -> bool:
    """Whether the killed run left a stack; what it left is whole, and the next run makes the same as one run."""
    config, stack = _config(home), a_spec().namespace
    left = config.exists(stack)
    if left:
        state = json.loads(config.state_file(stack).read_bytes())
        assert _comparable(state) == whole and config.settings_file(stack).exists(), (
            "a stack exists whole or not at all"
        )
        TransitKey.load(config.key_file)
    with importing(config) as import_stack:
        assert import_stack(a_spec())
    again = json.loads(config.state_file(stack).read_bytes())
    assert _comparable(again) == whole
    stray = [path.name for path in config.folder(stack).rglob("*.new")]
    assert stray == [], "nothing of the killed run is left in the folder of the stack"
    return left


def test_a_first_run_that_is_killed_at_any_write_leaves_the_stack_whole_or_not_at_all(tmp_path: Path) -> None:
    other = tmp_path / "whole"
    other.mkdir()
    whole = _comparable(written(config_in(other), a_spec()))
    homes = _killed(tmp_path, again=False)
    assert len(homes) > _LEAST
    found = [_check(home, whole) for home in homes]
    assert found == sorted(found) and not found[0] and found[-1], "there is no stack before the last file"


def test_a_run_that_writes_a_stack_anew_may_be_killed_too(tmp_path: Path) -> None:
    other = tmp_path / "whole"
    other.mkdir()
    whole = _comparable(written(config_in(other), a_spec()))
    for home in _killed(tmp_path, again=True):
        _check(home, whole)
