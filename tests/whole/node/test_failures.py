"""Failures of the node close no lease and tear nothing down; the operator reads why, and all ends without a hand."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from devnet.node.configuration import NODE_NAME
from devnet.node.images import Image, add_image
from devnet.node.members import kill_member
from devnet.node.network import NODE_PUBLIC_ADDRESS
from devnet.node.node import RealNode
from lease.ids import LeaseId, namespace_name
from tests.whole.conftest import Rented, close, deploy, rent
from tests.whole.node.conftest import MARKS, Site
from tests.whole.node.documents import small, volume
from tests.whole.node.readers import is_applied, is_running, operator_reads, tenant_reads, until
from tests.world.patience import PATIENCE_S

pytestmark = MARKS
HOST = "failures.example.com"
WEB = {"expose": [{"port": 80, "accept": [HOST], "to": [{"global": True}]}]}


async def ahead(site: Site) -> Rented:
    """The lease of these tests."""
    rented = await rent(site.world, small(web=WEB, db={"volume": volume("32Mi")}))
    await deploy(site.world, site.provider, rented)
    return rented


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def rented(site: Site) -> AsyncIterator[Rented]:
    """A lease that runs before each failure and, so these tests claim, after it; all of it made once."""
    rented: Rented = await site.ahead[__name__]
    await site.settle()
    await until(lambda: answers(site), "the lease's page is there")
    await until(lambda: is_applied(site, rented.lease), "the provider has nothing to do for the lease")
    yield rented
    site.close(rented)


async def answers(site: Site) -> bool:
    """Whether the page of the lease is served to the outside."""
    url = f"http://{NODE_PUBLIC_ADDRESS}/"
    done = await site.outside("curl", "-sS", "-m", "2", "-H", f"Host: {HOST}", url)
    return "hello from web-" in done.stdout


async def pods(site: Site, lease: LeaseId) -> str:
    """The pods of the lease and how often their containers were started again."""
    fields = "{range .items[*]}{.metadata.uid} {.status.containerStatuses[0].restartCount} {end}"
    done = await site.kubectl("-n", namespace_name(lease), "get", "pods", "-o", f"jsonpath={fields}")
    return done.stdout


async def nothing_was_done(site: Site, lease: LeaseId, *, after: int) -> None:
    """The chain still has the lease, and the provider has neither ended nor applied anything."""
    assert lease in await site.world.tenant.leases(lease.deployment)
    since = [event for event in site.provider.events[after:] if event.get("lease") == str(lease)]
    assert [event for event in since if event["event"] == "stack.result"] == []
    phases = {event["phase"] for event in since if event["event"] == "lease.state"}
    assert phases <= {"running", "degraded"}


async def test_the_end_of_containerd_is_no_end_of_what_runs(site: Site, rented: Rented) -> None:
    node, lease, mark = site.world.node, rented.lease, len(site.provider.events)
    assert node is not None
    before = await pods(site, lease)
    kill_member("containerd")
    assert await answers(site)
    node.start_program("containerd")

    async def runs_commands() -> bool:
        return (await site.inside(namespace_name(lease), "web", "true")).status == 0

    await until(runs_commands, "containerd serves the pods that it has found")
    assert await pods(site, lease) == before
    await nothing_was_done(site, lease, after=mark)


async def test_a_cut_wire_is_mended_by_its_return(site: Site, rented: Rented) -> None:
    lease, mark = rented.lease, len(site.provider.events)
    before = await pods(site, lease)
    await site.outside("ip", "link", "set", "up0", "down")
    assert not await answers(site)
    assert await is_running(site, lease), "within the node nothing has failed"
    await site.outside("ip", "link", "set", "up0", "up")
    await until(lambda: answers(site), "the page is served again")
    assert await pods(site, lease) == before
    await nothing_was_done(site, lease, after=mark)


@pytest.mark.long
async def test_a_node_that_goes_silent_is_named_as_the_cause_and_nothing_is_torn_down(
    site: Site, rented: Rented
) -> None:
    node, lease, mark = site.world.node, rented.lease, len(site.provider.events)
    assert node is not None
    before = await pods(site, lease)
    kill_member("kubelet")
    await site.provider.wait_for("lease.state", lease=str(lease), phase="degraded", after=mark, seconds=PATIENCE_S)

    async def is_told() -> bool:
        cause = f"node lost: node {NODE_NAME} does not report"
        read = [await operator_reads(site, lease), await tenant_reads(site, lease)]
        return all(text.startswith("degraded: service db") and text.count(cause) == 2 for text in read)

    await until(is_told, "both services are told to have lost their node")
    assert await answers(site), "what runs goes on"
    node.start_program("kubelet")
    await until(lambda: is_running(site, lease), "the lease runs again")
    await until(lambda: answers(site), "the page is served")
    assert await pods(site, lease) == before
    await nothing_was_done(site, lease, after=mark)


@pytest.mark.long
async def test_a_node_without_its_runtime_goes_on_serving(site: Site, rented: Rented) -> None:
    """The kubelet itself calls its node not ready then, and Kubernetes leaves the pods as ready as they are."""
    node, lease, mark = site.world.node, rented.lease, len(site.provider.events)
    assert node is not None
    before = await pods(site, lease)
    kill_member("containerd")
    await until(lambda: node_is(site, "KubeletNotReady"), "the kubelet has lost its runtime")
    assert await answers(site)
    assert await is_running(site, lease)
    node.start_program("containerd")
    await until(lambda: node_is(site, "KubeletReady"), "the node is ready again")
    assert await answers(site)
    assert await pods(site, lease) == before
    await nothing_was_done(site, lease, after=mark)


async def node_is(site: Site, reason: str) -> bool:
    path = "jsonpath={.status.conditions[?(@.type=='Ready')].reason}"
    return (await site.kubectl("get", "node", NODE_NAME, "-o", path)).stdout == reason


@pytest.mark.long
async def test_a_full_disk_keeps_new_containers_waiting_until_there_is_space_and_is_told(
    site: Site, rented: Rented
) -> None:
    node, mark = site.world.node, len(site.provider.events)
    assert node is not None
    before = await pods(site, rented.lease)
    disk = node.folder / "containerd"
    await asyncio.to_thread(move_to_small_disk, disk, node)
    late = await rent(site.world, small(late={}))
    await asyncio.to_thread(fill, disk)
    answer = await site.world.tenant.send_manifest(late.lease, late.sdl)
    assert answer.status == 200, answer

    async def is_told() -> bool:
        read = [await operator_reads(site, late.lease), await tenant_reads(site, late.lease)]
        return all("service late: 0 of 1 ready; " in text and "no space left on device" in text for text in read)

    await until(is_told, "the lease says that the node's disk is full")
    assert await answers(site), "what runs goes on"
    for path in disk.glob("full-*"):
        path.unlink()
    await site.provider.wait_for("lease.state", lease=str(late.lease), phase="running", after=mark, seconds=PATIENCE_S)
    assert await pods(site, rented.lease) == before
    await close(site.world, site.provider, late)
    assert await is_running(site, rented.lease)


@pytest.mark.long
async def test_a_disk_that_fills_up_while_an_image_is_written_is_told_and_the_image_comes_when_there_is_space(
    site: Site, rented: Rented
) -> None:
    node, mark = site.world.node, len(site.provider.events)
    assert node is not None
    before = await pods(site, rented.lease)
    disk, padding = node.folder / "containerd", node.folder / "padding"
    await asyncio.to_thread(move_to_small_disk, disk, node)
    padding.write_bytes(os.urandom(64 * 2**20))
    programs = {"bin/standin": site.world.plane.toolbox.program("standin"), "padding": padding}
    large = Image(["docker.io/example/large:1"], ["/bin/standin", "serve", "80"], programs, {})
    await asyncio.to_thread(add_image, node.folder / "images", large)
    late = await rent(site.world, small(large={}))
    (disk / "full-room").write_bytes(bytes(16 * 2**20))
    await asyncio.to_thread(fill, disk)
    (disk / "full-room").unlink()
    answer = await site.world.tenant.send_manifest(late.lease, late.sdl)
    assert answer.status == 200, answer

    async def is_told() -> bool:
        read = [await operator_reads(site, late.lease), await tenant_reads(site, late.lease)]
        return all("image cannot be pulled" in text and "no space left on device" in text for text in read)

    await until(is_told, "the lease says that its image cannot be written")
    assert await answers(site), "what runs goes on"
    for path in disk.glob("full-*"):
        path.unlink()
    await site.provider.wait_for("lease.state", lease=str(late.lease), phase="running", after=mark, seconds=PATIENCE_S)
    assert await pods(site, rented.lease) == before
    await close(site.world, site.provider, late)
    assert await is_running(site, rented.lease)


def move_to_small_disk(folder: Path, node: RealNode) -> None:
    """Put containerd's folder on a file system of 1 GiB, where it stays until the enclosure ends; once."""
    image, aside = folder.with_suffix(".ext4"), folder.with_name("aside")
    if image.exists():
        return
    kill_member("containerd")
    aside.mkdir()
    with image.open("wb") as file:
        file.truncate(2**30)
    commands: tuple[tuple[str | Path, ...], ...] = (
        ("mkfs.ext4", "-q", "-m", "0", image),
        ("mount", "-o", "loop", image, aside),
        ("cp", "--archive", f"{folder}/.", aside),
        ("umount", aside),
        ("mount", "-o", "loop", image, folder),
    )
    for argv in commands:
        subprocess.run(argv, check=True)
    node.start_program("containerd")


def fill(folder: Path) -> None:
    """Write until not even a small file fits."""
    for size in ("1M", "1k"):
        argv = ["dd", "if=/dev/zero", f"of={folder}/full-{size}", f"bs={size}"]
        subprocess.run(argv, check=False, capture_output=True)
