"""The name by which notes tell data folders apart."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stacks.common import EngineConfig
from stacks.engine.shared_stacks import NotedStacks
from tests.stacks.engine.test_engine_elsewhere import Notes

AT_ONCE = 16


def test_first_operations_at_the_same_time_agree_on_one_name(tmp_path: Path) -> None:
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        noted = NotedStacks(EngineConfig(data=folder, kubeconfig=tmp_path, pulumi=tmp_path), Notes())
        all_here = threading.Barrier(AT_ONCE)

        def name(_: int, noted: NotedStacks = noted, all_here: threading.Barrier = all_here) -> str:
            all_here.wait()
            return noted._machine()

        with ThreadPoolExecutor(AT_ONCE) as threads:
            assert len(set(threads.map(name, range(AT_ONCE)))) == 1
