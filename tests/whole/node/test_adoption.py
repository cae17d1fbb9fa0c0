"""A lease of the Go provider is taken over on a real node while a client outside polls it, then updated and closed."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from components.labels import RESOURCE_VERSION
from devnet.node.network import NODE_PUBLIC_ADDRESS
from lease.ids import LeaseId, auto_hostname, namespace_name
from lease.sdl import Sdl
from tests.components.recorded import load, writes
from tests.whole.conftest import Rented, close, rent
from tests.whole.node.conftest import MARKS, Done, Site, run_command
from tests.whole.node.documents import document, expose, service
from tests.world.patience import PATIENCE_S

pytestmark = MARKS

RECORDING, HOST, DOMAIN = "base-simple-v2.0", "ahostname.com", "ingress.example.com"
PACE = ("20", "300")
"""A client asks every 20 ms, for at most 300 s."""
KINDS = "deployments,services,ingresses,networkpolicies"
RECORDS = "manifests,providerhosts"


def the_sdl(**fields: Any) -> Sdl:
    """What was deployed when the recording was made, with a smaller disk and in the denom of this chain."""
    exposes = (expose(80, accept=[HOST]), expose(12345, proto="udp"))
    web = service(*exposes, cpu="100m", memory="128Mi", storage=({"size": "128Mi"},), count=2, image="nginx", **fields)
    return document({"web": web})


def for_lease(recording: Mapping[str, Any], objects: list[dict[str, Any]], lease: LeaseId) -> list[dict[str, Any]]:
    """The recorded objects as they are for this lease."""
    text, old = json.dumps(objects), recording["lease"]
    recorded = LeaseId(old["owner"], int(old["dseq"]), old["gseq"], old["oseq"], old["provider"])
    for before, after in (
        (namespace_name(recorded), namespace_name(lease)),
        (auto_hostname(recorded, "web", DOMAIN), auto_hostname(lease, "web", DOMAIN)),
        (recorded.owner, lease.owner),
        (recorded.provider, lease.provider),
        (f'"{recorded.dseq}"', f'"{lease.dseq}"'),
        (f'"dseq": {recorded.dseq}', f'"dseq": {lease.dseq}'),
        ("westcoast", "cluster"),
        (str(1 << 30), str(128 << 20)),
    ):
        text = text.replace(before, after)
    made: list[dict[str, Any]] = json.loads(text)
    return made


async def create(site: Site, *objects: dict[str, Any]) -> None:
    """Plain requests with the Go provider's name."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    done = await site.kubectl("create", "--field-manager", "provider-services", "-f", "-", stdin=text)
    assert done.status == 0, done.stderr


async def as_the_go_provider(site: Site, lease: LeaseId) -> None:
    """Make what the recording has, with the version of the stored Manifest in its labels."""
    recording = load(RECORDING)
    records = [obj for obj in recording["objects"] if obj["kind"] in ("Manifest", "ProviderHost")]
    await create(site, *for_lease(recording, records, lease))
    space = namespace_name(lease)
    stored = await site.kubectl("-n", "lease", "get", "manifest", space, "-o", "jsonpath={.metadata.resourceVersion}")
    text = json.dumps(for_lease(recording, writes(recording), lease))
    text = re.sub(rf'"{re.escape(RESOURCE_VERSION)}": "\d+"', f'"{RESOURCE_VERSION}": "{stored.stdout}"', text)
    await create(site, *sorted(json.loads(text), key=lambda obj: obj["kind"] != "Namespace"))
    done = await site.kubectl("-n", space, "rollout", "status", "deployment/web", "--timeout=120s", seconds=130)
    assert done.status == 0, done.stderr


async def objects(site: Site, lease: LeaseId) -> dict[str, Any]:
    """Everything of the lease as it is stored: without what changes by itself."""
    space, found = namespace_name(lease), {}
    for where in ((KINDS, space), (RECORDS, "lease")):
        listed = await site.kubectl("-n", where[1], "get", where[0], "-o", "json", "--show-managed-fields")
        for obj in json.loads(listed.stdout)["items"]:
            meta = obj["metadata"]
            if space not in (meta.get("namespace"), meta["name"]) and str(lease.dseq) not in json.dumps(
                obj.get("spec")
            ):
                continue
            obj.pop("status", None)
            meta.pop("resourceVersion")
            meta["managedFields"] = [each for each in meta["managedFields"] if not each.get("subresource")]
            found[f"{obj['kind']} {meta['name']}"] = obj
    return found


async def pods(site: Site, lease: LeaseId) -> set[tuple[str, int]]:
    """Uid and restarts of each pod."""
    listed = await site.kubectl("-n", namespace_name(lease), "get", "pods", "-o", "json")
    return {
        (pod["metadata"]["uid"], sum(each["restartCount"] for each in pod["status"]["containerStatuses"]))
        for pod in json.loads(listed.stdout)["items"]
    }


async def lessor(site: Site, *arguments: str) -> Done:
    program = Path(sys.executable).with_name("lessor")
    return await run_command([str(program), *arguments], seconds=120, env=site.world.provider_env())


def failed(printed: list[str]) -> tuple[int, int]:
    asked, count = re.findall(r"^asked (\d+) failed (\d+)", printed[0], re.M)[0]
    return int(asked), int(count)


@pytest.mark.long
async def test_a_lease_of_the_go_provider_is_taken_over_without_one_failed_request(site: Site) -> None:
    await site.begun()
    rented: Rented = await rent(site.world, the_sdl())
    lease, space = rented.lease, namespace_name(rented.lease)
    await site.provider.stop()
    await as_the_go_provider(site, lease)
    page = f"http://{NODE_PUBLIC_ADDRESS}/"
    answer = await site.outside("curl", "-sS", "--retry", "30", "--retry-all-errors", "-H", f"Host: {HOST}", page)
    assert "hello from" in answer.stdout, answer
    before, running = await objects(site, lease), await pods(site, lease)

    async with site.asking("poll", page, *PACE, HOST) as polled:
        planned = await lessor(site, "adopt", "--dry-run", "--json")
        (plan,) = [each for each in json.loads(planned.stdout)["leases"] if each["namespace"] == space]
        assert (plan["state"], plan["changes"]) == ("ready", []), plan
        adopted = await lessor(site, "adopt", "--yes")
        assert "adopted: 1 leases" in adopted.stdout, adopted
        assert await objects(site, lease) == before, "the way back: nothing but the record was added"
        site.provider = await site.world.run_provider()
        await site.provider.wait_for("lease.state", lease=str(lease), phase="running", seconds=PATIENCE_S)
        await asyncio.sleep(2)
        assert await objects(site, lease) == before, "nor by the start"
        assert await pods(site, lease) == running
    asked, lost = failed(polled)
    print(f"requests through adoption and start: {asked}, failed: {lost}")
    assert (asked > 20, lost) == (True, 0)
    again = await lessor(site, "adopt", "--dry-run", "--json")
    (plan,) = [each for each in json.loads(again.stdout)["leases"] if each["namespace"] == space]
    assert plan["state"] == "adopted"

    await site.update(site.world, rented, the_sdl(env=["STANDIN_VERSION=2"]))
    answer = await site.outside("curl", "-sS", "--retry", "10", "--retry-all-errors", "-H", f"Host: {HOST}", page)
    assert "version 2" in answer.stdout, answer
    assert await pods(site, lease) != running

    await close(site.world, site.provider, rented)
    gone = await site.kubectl("get", "namespace", space, "--ignore-not-found", "-o", "name")
    assert gone.stdout == ""
    assert await objects(site, lease) == {}
    records = await site.kubectl("-n", "lease", "get", "secrets,manifests,providerhosts", "-o", "name")
    assert space not in records.stdout
    assert HOST not in records.stdout
