"""A leader that is suspended, replaced and woken: it has no effect any more, nor have the workers of its host."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

from stacks.common import term_is_over
from tests.world.api_server import ApiServerInMemory, RecordedCluster
from tests.world.patience import eventually
from tests.world.processes import start_process

ROOT = Path(__file__).parents[2]


async def test_a_leader_that_wakes_after_its_term_destroys_nothing_and_ends(tmp_path: Path) -> None:
    server = ApiServerInMemory(RecordedCluster("lease"), tmp_path)
    await server.start()

    def candidate(name: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "tests.provider.candidate", server.kubeconfig, name, tmp_path / name]
        return start_process(argv, cwd=ROOT, stdout=subprocess.PIPE)

    def deletes(name: str) -> list[int]:
        wanted = ("DELETE", f"api/v1/namespaces/lease/secrets/of-{name}")
        return [index for index, each in enumerate(server.requests) if each == wanted]

    try:
        first = candidate("a")
        await eventually(lambda: len(deletes("a")) > 3)
        assert not term_is_over(tmp_path / "a")
        first.send_signal(signal.SIGSTOP)
        second = candidate("b")
        await eventually(lambda: len(deletes("b")) > 3)
        assert term_is_over(tmp_path / "a"), "a worker of the suspended daemon sees it without the daemon"
        first.send_signal(signal.SIGCONT)
        assert await asyncio.to_thread(first.wait, 240) == 3
        assert max(deletes("a")) < min(deletes("b"))
        assert not term_is_over(tmp_path / "b")
        second.send_signal(signal.SIGKILL)
    finally:
        await server.stop()
