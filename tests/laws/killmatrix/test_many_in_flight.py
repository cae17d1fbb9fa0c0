"""Many updates at once lose one of their processes: each lease converges, and nothing is left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from lightkube import Client
from lightkube.config.kubeconfig import KubeConfig

from devnet.tools import Toolbox
from tests.laws.killmatrix.checks import asked, forget_pool, left_of_run, wrong_in_state, wrong_with
from tests.laws.killmatrix.events import event_name
from tests.laws.killmatrix.leases import OldAndNew, old_and_new
from tests.laws.killmatrix.slot import VICTIMS, Slot, Trap

pytestmark = [
    pytest.mark.devnet,
    pytest.mark.long,
    pytest.mark.xdist_group("killmatrix"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]
LEASES = 20
WORKERS = 6


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def slot(devnet_cluster: Any, toolbox: Toolbox, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Slot]:
    folder: Path = tmp_path_factory.mktemp("many")
    slot = Slot(folder, toolbox, devnet_cluster.kubeconfig, workers=WORKERS)
    yield slot
    await slot.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(devnet_cluster: Any) -> AsyncIterator[Client]:
    client = Client(KubeConfig.from_file(devnet_cluster.kubeconfig).get())
    yield client
    client.close()


@pytest.mark.parametrize("victim", VICTIMS["list"])
async def test_each_of_twenty_leases_converges_when_a_process_of_their_updates_is_killed(
    slot: Slot, client: Client, victim: str
) -> None:
    leases = [old_and_new() for _ in range(LEASES)]
    for event, orders in (
        ("after create Namespace lease", [{"spec": lease.old.canonical_json()} for lease in leases]),
        ("after update Deployment web", [{"spec": lease.new.canonical_json()} for lease in leases]),
    ):
        await _ordered(slot, orders, _trap(leases, victim, event))
    for lease in leases:
        assert await asked(_wrong, slot, client, lease) == []
    gone = [{"gone": lease.namespace} for lease in leases]
    await _ordered(slot, gone, _trap(leases, victim, "before delete Namespace lease"))
    for lease in leases:
        assert not slot.config.folder(lease.namespace).exists()
        await asked(forget_pool, client, lease.pool)


def _trap(leases: Sequence[OldAndNew], victim: str, event: str) -> Trap:
    def name(found: dict[str, Any]) -> str | None:
        urn = str(found)
        lease = next((lease for lease in leases if lease.namespace in urn), leases[0])
        return event_name(found, lease.short)

    return Trap(victim, event, name, times=WORKERS)


async def _ordered(slot: Slot, orders: Sequence[dict[str, str]], trap: Trap) -> None:
    reply = await slot.order({"all": orders}, trap)
    assert reply.ok, reply.said
    assert trap.killed_at, trap.seen


def _wrong(slot: Slot, client: Client, lease: OldAndNew) -> list[str]:
    return [
        *wrong_with(client, lease.new, lease.pool),
        *wrong_in_state(slot.config, lease.new),
        *left_of_run(slot, lease.namespace),
    ]
