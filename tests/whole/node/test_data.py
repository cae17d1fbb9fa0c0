"""What a tenant has written into a volume stays there, until the volume's time is over."""

from __future__ import annotations

import asyncio

import pytest

from devnet.node.members import kill_member
from devnet.node.reboot import reboot_node
from lease.ids import LeaseId, namespace_name
from lease.sdl import Sdl
from tests.whole.conftest import Rented, deploy, rent
from tests.whole.node.conftest import MARKS, Site
from tests.whole.node.documents import small, volume
from tests.whole.node.readers import is_running, lessor, restart_provider, until
from tests.world.patience import PATIENCE_S

pytestmark = MARKS
TEXT = "what the tenant wrote"


def database(**changes: object) -> Sdl:
    return small(db={"volume": volume("32Mi"), **changes})


async def write(site: Site, lease: LeaseId) -> None:
    done = await site.inside(namespace_name(lease), "db", "sh", "-c", f"echo {TEXT} > /data/file && sync")
    assert done.status == 0, done


async def is_there(site: Site, lease: LeaseId) -> bool:
    done = await site.inside(namespace_name(lease), "db", "cat", "/data/file")
    return done.stdout.strip() == TEXT


async def pod_uid(site: Site, lease: LeaseId) -> str:
    fields = "jsonpath={.metadata.uid} {.status.containerStatuses[0].restartCount}"
    return (await site.kubectl("-n", namespace_name(lease), "get", "pod", "db-0", "-o", fields)).stdout


async def update(site: Site, rented: Rented, sdl: Sdl) -> None:
    mark = len(site.provider.events)
    await site.world.tenant.announce_update(rented.deployment, sdl)
    answer = await site.world.tenant.send_manifest(rented.lease, sdl)
    assert answer.status == 200, answer
    await site.provider.wait_for("stack.result", after=mark, lease=str(rented.lease), operation="up")
    await site.provider.wait_for(
        "lease.state", after=mark, lease=str(rented.lease), phase="running", seconds=PATIENCE_S
    )


@pytest.mark.long
async def test_a_file_outlives_an_update_and_the_ends_of_lessor_kubelet_and_node(site: Site) -> None:
    node = site.world.node
    assert node is not None
    rented = await rent(site.world, database())
    lease = rented.lease
    await deploy(site.world, site.provider, rented)
    await write(site, lease)

    before = await pod_uid(site, lease)
    await update(site, rented, database(env=["CHANGED=yes"]))
    assert await pod_uid(site, lease) != before, "the update has made the pod anew"
    assert await is_there(site, lease)

    before = await pod_uid(site, lease)
    await restart_provider(site)
    await site.provider.wait_for("lease.state", lease=str(lease), phase="running")
    kill_member("kubelet")
    node.start_program("kubelet")
    await until(lambda: is_there(site, lease), "the file is there after the kubelet's end")
    assert await pod_uid(site, lease) == before, "neither end concerns the pod"

    await asyncio.to_thread(reboot_node, node)
    await until(lambda: is_changed(site, lease, before), "the container is made anew after a reboot")
    await until(lambda: is_there(site, lease), "the file is there after the node's reboot")
    await until(lambda: is_running(site, lease), "the lease runs again after a reboot")
    await asyncio.to_thread(node.wait_for_workloads)
    node.api.close()
    site.close(rented)


async def is_changed(site: Site, lease: LeaseId, before: str) -> bool:
    return await pod_uid(site, lease) not in ("", before)


@pytest.mark.long
async def test_a_file_in_quarantine_goes_to_another_lease_by_restore(site: Site) -> None:
    node = site.world.node
    assert node is not None
    await restart_provider(site, LESSOR_VOLUME_QUARANTINE="1h")
    first = await rent(site.world, database())
    await deploy(site.world, site.provider, first)
    await write(site, first.lease)
    await end(site, first, phase="quarantined")

    second = await rent(site.world, database())
    await lessor(site, "lease", "restore", str(first.lease), "--into", str(second.lease))
    await deploy(site.world, site.provider, second)
    assert await is_there(site, second.lease)

    await restart_provider(site)
    site.close(second)


@pytest.mark.long
async def test_after_its_quarantine_the_file_is_gone(site: Site) -> None:
    node = site.world.node
    assert node is not None
    await restart_provider(site, LESSOR_VOLUME_QUARANTINE="5s")
    rented = await rent(site.world, database())
    await deploy(site.world, site.provider, rented)
    await write(site, rented.lease)
    path = "jsonpath={.items[0].spec.volumeName}"
    claim = await site.kubectl("-n", namespace_name(rented.lease), "get", "pvc", "-o", path)
    directory = node.folder / "volumes" / claim.stdout
    await end(site, rented, phase="quarantined")
    assert (directory / "file").read_text().strip() == TEXT
    await site.provider.wait_for("lease.state", lease=str(rented.lease), phase="closed", seconds=PATIENCE_S)
    assert not directory.exists()
    await restart_provider(site)


async def end(site: Site, rented: Rented, *, phase: str) -> None:
    mark = len(site.provider.events)
    await site.world.tenant.close_deployment(rented.deployment)
    await site.provider.wait_for("lease.state", after=mark, lease=str(rented.lease), phase=phase, seconds=PATIENCE_S)
