"""What keeps a lease from running on a real node is told to its operator and its tenant, with the cause."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest

from devnet.node.registry import PASSWORD, USER
from lease.ids import LeaseId, namespace_name
from tests.whole.conftest import Rented, deploy, rent
from tests.whole.node.conftest import MARKS, Site
from tests.whole.node.documents import small, volume
from tests.whole.node.readers import operator_reads, tenant_reads, until
from tests.world.patience import PATIENCE_S

pytestmark = MARKS
LOGIN = {"host": "registry.example", "username": USER}
SERVICES: Mapping[str, Mapping[str, Any]] = {
    "gone": {"image": "docker.io/missing/x:1"},
    "locked": {"image": "registry.example/private/x:1", "credentials": {**LOGIN, "password": "wrong"}},
    "opened": {"image": "registry.example/private/x:1", "credentials": {**LOGIN, "password": PASSWORD}},
    "crash": {"command": ["standin", "exit", "3"]},
    "eater": {"command": ["standin", "eat", "200"]},
    "nothing": {"command": ["no-such-program"]},
    "full": {"command": ["standin", "write", "/data/file", "64"], "volume": volume("32Mi", storage_class="beta3")},
    "deaf": {"command": ["standin", "serve", "81"], "expose": [{"port": 80, "to": [{"global": True}]}]},
    "hung": {"command": ["standin", "pause"]},
}
TOLD = {
    "gone": ("image cannot be pulled", "docker.io/missing/x:1: not found"),
    "locked": ("image cannot be pulled", "401 Unauthorized"),
    "crash": ("crash loop: exit code 3",),
    "eater": ("out of memory",),
    "nothing": ("no-such-program", "executable file not found"),
    "full": ("crash loop: exit code 1",),
}
"""Service to what is said of it. The others run as far as a provider sees: an SDL has no probes."""


def said_of(service: str, text: str) -> str:
    """The part of a text that is about this service."""
    parts = text.partition(f"service {service}: ")[2].split("; service ")
    return parts[0]


async def listen(site: Site, lease: LeaseId, *, seconds: float) -> dict[tuple[str, str], str]:
    """Who reads of which service what, once all is told; else after `seconds` what was told last."""
    told: dict[tuple[str, str], str] = {}
    deadline = time.monotonic() + seconds

    def note(reader: str, text: str) -> None:
        for service, words in TOLD.items():
            if not is_told(told.get((reader, service), ""), words):
                told[reader, service] = said_of(service, text)

    def complete(reader: str) -> bool:
        return all(is_told(told.get((reader, service), ""), words) for service, words in TOLD.items())

    while not (complete("operator") and complete("tenant")) and time.monotonic() < deadline:
        note("tenant", await tenant_reads(site, lease))
        if complete("tenant"):
            note("operator", await operator_reads(site, lease))
        await asyncio.sleep(0.3)
    return told


def is_told(text: str, words: tuple[str, ...]) -> bool:
    return all(word in text for word in words)


async def ahead(site: Site) -> Rented:
    """A lease of all these services."""
    rented = await rent(site.world, small(**SERVICES))
    answer = await site.world.tenant.send_manifest(rented.lease, rented.sdl)
    assert answer.status == 200, answer
    return rented


@pytest.mark.long
async def test_operator_and_tenant_read_the_cause_of_whatever_keeps_a_service_from_running(site: Site) -> None:
    rented: Rented = await site.ahead[__name__]
    told = await listen(site, rented.lease, seconds=90)
    untold = {key: text for key, text in told.items() if not is_told(text, TOLD[key[1]])}
    assert not untold

    async def others_run() -> bool:
        """A busy kubelet may begin to pull before it has read the credentials, and then begins again."""
        text = await tenant_reads(site, rented.lease)
        return text.startswith("starting: ") and not any(said_of(name, text) for name in SERVICES if name not in TOLD)

    await until(others_run, "nothing is said of the services that run")
    namespace = namespace_name(rented.lease)
    logs = await site.kubectl("-n", namespace, "logs", "full-0")
    assert "no space left on device" in logs.stdout, logs
    assert (await site.inside(namespace, "deaf", "standin", "dial", "127.0.0.1:80")).stdout.split()[0] == "REFUSED"
    site.close(rented)


@pytest.mark.long
async def test_a_pod_that_cannot_be_made_is_explained_by_the_nodes_warning_although_it_comes_later(site: Site) -> None:
    """A volume whose directory is gone: the pod is only being created, and events alone say what for."""
    assert site.world.node is not None
    rented = await rent(site.world, small(db={"volume": volume("32Mi")}))
    await deploy(site.world, site.provider, rented)
    mark = len(site.provider.events)
    namespace = namespace_name(rented.lease)
    claim = await site.kubectl("-n", namespace, "get", "pvc", "-o", "jsonpath={.items[0].spec.volumeName}")
    (site.world.node.folder / "volumes" / claim.stdout).rename(aside := site.world.node.folder / "aside")
    await site.kubectl("-n", namespace, "delete", "pod", "db-0")
    deadline = time.monotonic() + 60
    while "FailedMount" not in (text := await operator_reads(site, rented.lease)) and time.monotonic() < deadline:
        await asyncio.sleep(0.5)
    assert "degraded: service db: 0 of 1 ready; pod db-0 being created: FailedMount" in text
    aside.rename(site.world.node.folder / "volumes" / claim.stdout)
    await site.provider.wait_for(
        "lease.state", lease=str(rented.lease), phase="running", after=mark, seconds=PATIENCE_S
    )
    site.close(rented)
