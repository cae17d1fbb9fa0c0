"""The whole provider runs in the cluster that it serves: from `pulumi up` with its image to `pulumi destroy`.

The tests are one story in this order: one world, one provider, one tenant.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp
from aiohttp import WSMsgType

from devnet.node.network import NODE_PUBLIC_ADDRESS
from lease.ids import namespace_name
from tests.provider.gateway.issuer.pebble import NAME, Pebble, running_pebble
from tests.whole.conftest import Rented, rent
from tests.whole.gateways import BEHIND_EDGE
from tests.whole.inside.conftest import HOME, KEY, MARKS, POD, SPACE, Inside, give_key
from tests.whole.node.conftest import run_command
from tests.whole.node.documents import small, volume
from tests.whole.streams import opened
from tests.world.patience import PATIENCE_S, eventually

pytestmark = MARKS
KEPT: dict[str, Rented] = {}
"""The leases of the story by name."""


async def deploy(inside: Inside, name: str, **fields: object) -> Rented:
    """Rent, send the manifest to the gateway's Service, and wait until the lease runs."""
    rented = KEPT[name] = await rent(inside.world, small(**{name: fields}))  # type: ignore[arg-type]
    answer = await inside.world.tenant.send_manifest(rented.lease, rented.sdl)
    assert (answer.status, answer.body) == (200, ""), await inside.troubles()
    await until_running(inside, name)
    return rented


async def until_running(inside: Inside, name: str) -> None:
    await eventually(lambda: is_running(inside, name), pause_s=0.5)


async def is_running(inside: Inside, name: str) -> bool:
    """Whether the gateway calls the service available, as the tenant reads it."""
    rented = KEPT[name]
    gateway = await inside.world.tenant.gateway(inside.world.provider)
    answer = await gateway.lease_status(rented.deployment.dseq)
    if answer.status != 200:
        return False
    services = json.loads(answer.body)["services"]
    return services[name]["available"] == 1


async def tenants_pod(inside: Inside, name: str) -> tuple[str, int]:
    """The uid of the tenant's pod, and how often its container was started again."""
    rented = KEPT[name]
    namespace = namespace_name(rented.lease)
    pod = await inside.get("pod", await inside.site.pod(namespace, name), namespace=namespace)
    return pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]


async def certificate(inside: Inside) -> str:
    """What the Secret holds of the account certificate."""
    secret = await inside.get("secret", "lessor-certificate")
    return str(((secret or {}).get("data") or {}).get(f"{inside.world.provider}.pem", ""))


async def test_the_pods_of_the_stack_become_ready_without_a_right_too_many(inside: Inside) -> None:
    pods = json.loads(await inside.kubectl("get", "pods", "-o", "json"))["items"]
    names = {pod["metadata"]["name"] for pod in pods}
    assert POD in names and any(name.startswith("operator-inventory-hardware") for name in names), names

    async def ready() -> bool:
        return all([await inside.ready(name) for name in names])

    await eventually(ready, pause_s=0.5)
    events = json.loads(await inside.kubectl("get", "events", "-o", "json"))["items"]
    assert not [each["message"] for each in events if each["reason"] == "FailedCreate"], "an account came too late"
    container = (await inside.get("pod", POD))["spec"]["containers"][0]
    assert container["securityContext"]["readOnlyRootFilesystem"] and container["securityContext"]["runAsNonRoot"]
    done = await inside.lessor("status")
    assert "nothing is removed" not in done.stdout and done.status in (0, 1), (done, await inside.troubles())


async def test_the_inventory_operator_in_a_pod_labels_the_node_and_the_market_reads_its_state(inside: Inside) -> None:
    done = await inside.site.kubectl("get", "node", "-o", "jsonpath={.items[0].metadata.labels}")
    assert json.loads(done.stdout)["akash.network"] == "true"
    read = "import urllib.request; print(urllib.request.urlopen('{}/v1/inventory').read().decode())"
    endpoint = (await inside.get("configmap", "akash-provider"))["data"]["LESSOR_INVENTORY_ENDPOINT"]
    asked = await inside.site.kubectl("-n", SPACE, "exec", POD, "--", "python", "-c", read.format(endpoint))
    assert asked.status == 0, (asked, await inside.troubles())
    assert [node["name"] for node in json.loads(asked.stdout)["nodes"]] == ["real-1"]


async def test_an_order_becomes_a_lease_that_serves(inside: Inside) -> None:
    rented = await deploy(inside, "web", volume=volume("64Mi"))
    host = (await inside.site.lease_status(inside.world, rented.deployment, seconds=0))["services"]["web"]["uris"][0]
    page = ("curl", "-sS", "-m", "10", "-o", "/dev/null", "-w", "%{http_code}", "-H", f"Host: {host}")

    async def serves() -> bool:
        return (await inside.site.outside(*page, f"http://{NODE_PUBLIC_ADDRESS}/")).stdout == "200"

    await eventually(serves, pause_s=0.5)


async def test_a_deleted_pod_of_the_provider_comes_back_to_its_leases_with_its_state(inside: Inside) -> None:
    before, pod, kept = await inside.until_ready(), await tenants_pod(inside, "web"), await certificate(inside)
    runs = await inside.lessor("lease", "history", str(KEPT["web"].deployment.dseq))
    assert kept and runs.status == 0
    rented = KEPT["meanwhile"] = await rent(inside.world, small(meanwhile={}))
    await inside.kubectl("delete", "pod", POD, "--wait=false")
    await inside.until_ready(not_uid=before)
    answer = await inside.world.tenant.send_manifest(rented.lease, rented.sdl, seconds=120)
    assert (answer.status, answer.body) == (200, "")
    await until_running(inside, "meanwhile")
    assert await tenants_pod(inside, "web") == pod
    assert await inside.world.tenant.leases(KEPT["web"].deployment) == [KEPT["web"].lease]
    again = await inside.lessor("lease", "history", str(KEPT["web"].deployment.dseq))
    assert again.stdout == runs.stdout, "the claim has the history"
    assert await certificate(inside) == kept


async def test_a_pod_that_is_told_to_end_ends_by_itself_and_no_probe_kills_a_start(inside: Inside) -> None:
    before = await inside.until_ready()
    follow = asyncio.create_task(inside.kubectl("logs", POD, "--follow", "--tail=1", seconds=240))
    await inside.kubectl("delete", "pod", POD, seconds=240)
    last = json.loads((await follow).strip().splitlines()[-1])
    assert last["event"] == "provider.stopped", last
    await inside.until_ready(not_uid=before)
    events = json.loads(await inside.kubectl("get", "events", "-o", "json"))["items"]
    assert not [each["message"] for each in events if each["reason"] == "Unhealthy" and "Liveness" in each["message"]]


async def test_a_lost_claim_costs_neither_a_lease_nor_the_certificate(inside: Inside) -> None:
    before, pod, kept = await inside.until_ready(), await tenants_pod(inside, "web"), await certificate(inside)
    await inside.kubectl("scale", "statefulset", "akash-provider", "--replicas=0")
    await inside.kubectl("wait", "--for=delete", f"pod/{POD}", "--timeout=90s", seconds=120)
    await inside.kubectl("delete", "pvc", f"home-{POD}", seconds=120)
    await inside.kubectl("scale", "statefulset", "akash-provider", "--replicas=1")
    await inside.until_ready(not_uid=before)
    assert await certificate(inside) == kept
    served = await inside.site.kubectl("-n", SPACE, "exec", POD, "--", "python", "-c", _read(inside.world.provider))
    assert served.stdout.strip() == kept
    await until_running(inside, "web")
    assert await tenants_pod(inside, "web") == pod


def _read(owner: str) -> str:
    """A program that prints the certificate's file in base64, as a Secret has it."""
    return f"import base64, pathlib; print(base64.b64encode(pathlib.Path('{HOME}/{owner}.pem').read_bytes()).decode())"


async def test_a_closed_lease_leaves_nothing(inside: Inside) -> None:
    rented = KEPT.pop("meanwhile")
    await inside.world.tenant.close_deployment(rented.deployment)
    namespace = namespace_name(rented.lease)

    async def gone() -> bool:
        found = [await inside.get("namespace", namespace), await inside.get("manifest", namespace, namespace="lease")]
        return found == [None, None] and await inside.get("secret", f"applied-{namespace}", namespace="lease") is None

    await eventually(gone, pause_s=0.5)
    assert "meanwhile" not in KEPT and await is_running(inside, "web")


async def test_destroying_the_stack_leaves_leases_alone_and_the_next_up_serves_them(inside: Inside) -> None:
    pod, namespace = await tenants_pod(inside, "web"), namespace_name(KEPT["web"].lease)
    await inside.world.stack.destroy(lambda _: None)

    async def left() -> bool:
        return await inside.get("namespace", SPACE) is None

    await eventually(left, pause_s=0.5)
    assert await tenants_pod(inside, "web") == pod
    assert await inside.get("manifest", namespace, namespace="lease") is not None
    await inside.world.apply_cluster_stack(lambda _: None)
    await give_key(inside)
    await inside.until_ready()
    assert await inside.world.tenant.leases(KEPT["web"].deployment) == [KEPT["web"].lease]
    assert await tenants_pod(inside, "web") == pod
    done = await inside.lessor("lease", "show", str(KEPT["web"].deployment.dseq))
    assert done.status == 0 and "running" in done.stdout, (done, await inside.troubles())


async def test_a_gateway_in_a_container_beside_the_provider_has_the_cas_certificate_and_goes_on_when_the_provider_ends(
    inside: Inside, tmp_path: Path
) -> None:
    before = await inside.until_ready()
    async with running_pebble(tmp_path / "ca", place=BEHIND_EDGE) as ca:
        await inside.kubectl("patch", "secret", KEY, "-p", json.dumps({"stringData": {"ca.pem": ca.roots.read_text()}}))
        await inside.change({"gateway-process": "separate"}, **_ordering(ca))
        await inside.until_ready(not_uid=before)
        await inside.wait_for("gateway.certificate_issued", names=[NAME])
        await eventually(lambda: _trusted(inside, ca, tmp_path), pause_s=0.5)
    async with opened(inside.world, KEPT["web"], "logs?follow=true") as socket:
        assert await _restarts(inside) == {"provider": 0, "gateway": 0}
        await inside.kubectl("exec", POD, "-c", "provider", "--", "python", "-c", _END_PROVIDER)

        async def ended() -> bool:
            return await _restarts(inside) == {"provider": 1, "gateway": 0}

        await eventually(ended, pause_s=0.5)
        assert await is_running(inside, "web"), "the gateway knows the lease by its own watches"
        await inside.until_ready()
        assert await _goes_on(socket)
    assert (await inside.lessor("status")).status in (0, 1)


async def _goes_on(socket: aiohttp.ClientWebSocketResponse) -> bool:
    """Whether a line or a ping comes after those that have arrived by now."""
    while True:
        receiving = asyncio.ensure_future(socket.receive())
        waited = not (await asyncio.wait((receiving,), timeout=0.2))[0]
        if (await asyncio.wait_for(receiving, PATIENCE_S)).type not in (WSMsgType.TEXT, WSMsgType.PING):
            return False
        if waited:
            return True


_END_PROVIDER = """
import os, pathlib, signal
for entry in pathlib.Path("/proc").glob("[0-9]*"):
    words = (entry / "cmdline").read_bytes().split(b"\\0") if (entry / "cmdline").exists() else []
    if b"run" in words[:4] and any(word.endswith(b"lessor") for word in words[:3]):
        os.kill(int(entry.name), signal.SIGTERM)
"""
"""The pod's containers see each other's processes."""


def _ordering(ca: Pebble) -> dict[str, str]:
    """The cluster stack makes the route of the challenges, and mounts the key's Secret with the CA's own root."""
    return {
        "AP_CERT_ISSUER_ENABLED": "true",
        "AP_CERT_ISSUER_CA_DIR_URL": ca.directory,
        "LESSOR_CERT_ISSUER_CA_FILE": "/run/secrets/lessor/ca.pem",
    }


async def _trusted(inside: Inside, ca: Pebble, folder: Path) -> bool:
    """Whether a client that knows the CA alone reaches the gateway by the provider's name."""
    root = folder / "root.pem"
    root.write_bytes(await ca.root())
    address = (await inside.get("service", "akash-provider"))["spec"]["clusterIP"]
    known = ("--cacert", str(root), "--resolve", f"{NAME}:8443:{address}")
    done = await run_command(["curl", "-sS", "-m", "5", *known, f"https://{NAME}:8443/version"], seconds=10)
    return done.status == 0


async def _restarts(inside: Inside) -> dict[str, int]:
    """How often each container of the provider's pod was started again."""
    pod = await inside.get("pod", POD)
    return {each["name"]: each["restartCount"] for each in pod["status"]["containerStatuses"]}
