"""`lessor pulumi` with the real command line on a stack that the engine has made."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from devnet.tools import Toolbox
from lease.ids import namespace_name
from provider.lifecycle.state import LeaseStatus, Phase
from provider.runs.log import RunOutcome, RunReason, StoredRun, runs_of
from provider.store import open_database, read_database
from provider.store.leases import save_status
from provider.store.ring import open_ring
from provider.store.sealing import load_ring
from stacks.engine import EngineConfig, PulumiEngine
from tests.stacks.leases import CANARY, small

pytestmark = [pytest.mark.devnet, pytest.mark.long, pytest.mark.timeout(900)]  # ten starts of the stock command line


class Lessor:
    """The command as an operator runs it, without a terminal."""

    def __init__(self, devnet: Any, toolbox: Toolbox, home: Path) -> None:
        self.home = home
        self.spec = small()
        self.stack = self.spec.namespace
        self.config = EngineConfig(
            data=home / "engine",
            kubeconfig=devnet.kubeconfig,
            pulumi=toolbox.program("pulumi"),
            pulumi_home=toolbox.pulumi_home,
            workers=1,
            resident=toolbox.program("lessor-engine"),
        )
        self._environment = toolbox.env() | {"AP_HOME": str(home), "KUBECONFIG": str(devnet.kubeconfig)}

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "from provider.cli import main; main()", "pulumi", *arguments],
            env=self._environment | {"PULUMI_HOME": str(self.config.pulumi_home), "COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    async def prepare(self) -> None:
        database = await open_database(f"sqlite+aiosqlite:///{self.home}/lessor.db")
        await open_ring(database, self.home / "store.key")
        await save_status(database, LeaseStatus(self.spec.lease, Phase.RUNNING, "", 1.0))
        await database.close()

    async def runs(self) -> list[StoredRun]:
        database = await read_database(f"sqlite+aiosqlite:///{self.home}/lessor.db")
        ring = load_ring(self.home / "store.key")
        found = await runs_of(database, namespace_name(self.spec.lease), limit=10, ring=ring)
        await database.close()
        return list(found)


async def test_an_operator_looks_and_changes_beside_the_provider(devnet_cluster, toolbox, tmp_path):
    lessor = Lessor(devnet_cluster, toolbox, tmp_path)
    await lessor.prepare()
    lease = str(lessor.spec.lease)
    engine = PulumiEngine(lessor.config)
    try:
        made = await engine.up(lessor.spec)
        assert made.ok, made.error

        shown = await asyncio.to_thread(lessor, lease, "--", "stack", "export", "--show-secrets")
        assert shown.returncode == 0, shown.stderr
        resources = json.loads(shown.stdout)["deployment"]["resources"]
        assert any(item["id"].endswith("/web") for item in resources if "id" in item)
        assert CANARY in shown.stdout, "its own secrets service decrypts"
        assert await lessor.runs() == [], "what only looks is no run"

        done = await asyncio.to_thread(lessor, "--yes", lease, "--", "refresh", "--skip-preview")
        assert done.returncode == 0, done.stderr + done.stdout
        failed = await asyncio.to_thread(lessor, "--yes", lease, "--", "state", "delete", "urn:no-such-thing")
        assert failed.returncode not in (0, 2), "Pulumi's own code"

        newest, before = await lessor.runs()
        assert (before.reason, before.outcome, before.error) == (RunReason.OPERATOR, RunOutcome.DONE, "")
        assert newest.outcome is RunOutcome.FAILED and newest.error.startswith("pulumi state delete ended with ")
        assert newest.result is not None and "urn:no-such-thing" not in repr(newest.result)
        again = await engine.up(lessor.spec)
        assert again.ok and again.changes == (), "the provider goes on with what the operator left"
        assert (await engine.destroy(lessor.stack)).ok
        assert [path.name for path in (lessor.config.data / "tmp").glob("operator-*")] == []
    finally:
        await engine.close()
