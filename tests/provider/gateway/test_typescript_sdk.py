"""The TypeScript SDK from npm as a tenant: what it makes of an SDL, its certificate, its tokens, REST with either,
streams and gRPC.

The package, a WebSocket client and all that they need are pinned in `sdk/package-lock.json`; `npm ci` fetches them.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from akash.deployment.v1beta4 import types_pb2 as deployment_pb

from devnet.chain import TEST_MNEMONIC
from lease.errors import ManifestRefused
from lease.ids import LeaseId, namespace_name
from lease.manifest_decode import manifest_from_json
from lease.manifest_json import manifest_version
from lease.validation import cross_validate, validate_manifest
from provider.chain.codec import group_from_pb
from provider.protocols.chain import CertificateState, PublishedCertificate
from provider.protocols.cluster import DEPLOYMENT, MANIFEST, NAMESPACE
from provider.protocols.pods import Command
from tests.data import document, names, read
from tests.provider.gateway.grpc_world import grpc_world
from tests.provider.gateway.recorded import deployed
from tests.provider.gateway.sdk_manifests import MADE_DIFFERENTLY, differing_fields
from tests.provider.gateway.world import PROVIDER, World, new_world, place, rented
from tests.world.pods import FakeExecution, exit_status, pod_object

pytestmark = pytest.mark.long
SDK = Path(__file__).parent / "sdk"
NPM = shutil.which("npm")
OTHER_HASH = {
    "edge-env-unicode": "the SDK does not escape U+2028",
    "edge-http-zero-means-default": "the SDK hashes an empty list that Go leaves out",
    "edge-permissions-empty": "the SDK hashes an empty list that Go leaves out",
}
"""SDLs of which the SDK announces another hash than the Go provider computes of the manifest that it sends."""
UNREADABLE = {"edge-cpu-float-truncation": "the SDK sends a fraction of a unit"}


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the program with its packages."""
    if NPM is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("sdk")
    for file in SDK.iterdir():
        shutil.copy(file, folder)
    command = (NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot fetch the packages: {done.stderr.strip().splitlines()[-1:]}")
    return folder


@dataclass
class Sdk:
    folder: Path

    async def do(self, action: str, **given: Any) -> Any:
        """What the program answers."""
        return await asyncio.to_thread(self.do_now, action, **given)

    def do_now(self, action: str, **given: Any) -> Any:
        command = ("node", "tenant.mjs")
        text = json.dumps({"do": action, **given})
        done = subprocess.run(command, cwd=self.folder, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="session")
def sdk(installed: Path) -> Sdk:
    return Sdk(installed)


@pytest.fixture(scope="session")
def manifests(sdk: Sdk) -> dict[str, Any]:
    """What the SDK makes of each SDL of the corpus."""
    found: dict[str, Any] = sdk.do_now(
        "manifests", sdls={name: read(f"sdl/{name}.yaml").decode() for name in names("sdl", ending=".yaml")}
    )
    return found


def test_what_the_sdk_sends_has_the_hash_that_it_announces(manifests: dict[str, Any]) -> None:
    """For each SDL that the Go provider takes. A tenant gets 422 for the others, of either provider."""
    problems, same = [], 0
    for name, made in manifests.items():
        if "version" not in made or not document(f"sdl/{name}.expected.json")["valid"]:
            continue
        problem = _problem(made)
        if problem != _known_problem(name):
            problems.append(f"{name}: {problem}")
        same += not problem
    assert problems == []
    assert same > 100


def test_where_the_sdks_hash_is_not_gos_the_sdk_has_made_another_manifest(manifests: dict[str, Any]) -> None:
    """Of 39 SDLs. The hash follows from the manifest, so that the reader of SDLs alone is the difference."""
    found: dict[tuple[str, ...], set[str]] = {}
    for name, made in manifests.items():
        expected = document(f"sdl/{name}.expected.json")
        if "version" in made and expected["valid"] and expected["version"] != made["version"]:
            fields = differing_fields(json.loads(made["manifest"]), expected["manifest"])
            found.setdefault(fields, set()).add(name)
    assert found == {tuple(sorted(fields)): set(sdls) for fields, sdls in MADE_DIFFERENTLY.values()}


def _problem(made: dict[str, Any]) -> str:
    try:
        manifest = manifest_from_json(made["manifest"].encode())
        validate_manifest(manifest)
    except ManifestRefused:
        return "refused"
    return "" if manifest_version(manifest).hex() == made["version"] else "another hash"


def _known_problem(name: str) -> str:
    return "another hash" if name in OTHER_HASH else "refused" if name in UNREADABLE else ""


def test_what_the_sdk_sends_matches_the_groups_that_it_brings_onto_the_chain(manifests: dict[str, Any]) -> None:
    matched = 0
    for name, made in manifests.items():
        if not made.get("groups") or name in UNREADABLE or not document(f"sdl/{name}.expected.json")["valid"]:
            continue
        wire = (deployment_pb.GroupSpec.FromString(bytes.fromhex(each)) for each in made["groups"])
        cross_validate(manifest_from_json(made["manifest"].encode()), tuple(map(group_from_pb, wire)))
        matched += 1
    assert matched > 100


def test_the_bytes_of_the_sdk_are_ours_where_it_reads_an_sdl_as_go_does(manifests: dict[str, Any]) -> None:
    same = 0
    for name, made in manifests.items():
        expected = document(f"sdl/{name}.expected.json")
        if expected["valid"] and made.get("version") == expected["version"]:
            assert json.loads(made["manifest"]) == expected["manifest"], name
            assert (
                manifest_version(manifest_from_json(json.dumps(expected["manifest"]).encode())).hex() == made["version"]
            )
            same += 1
    assert same > 60


@dataclass
class Tenant:
    """The account of the SDK, with a lease of the SDL."""

    made: dict[str, Any]
    world: World
    manifest: str

    @property
    def token(self) -> str:
        return str(self.made["token"])

    @property
    def certificate(self) -> dict[str, str]:
        return {"cert": self.made["cert"], "privateKey": self.made["privateKey"]}

    @property
    def lease(self) -> LeaseId:
        return LeaseId(self.made["address"], 42, 1, 1, PROVIDER)

    def place(self) -> dict[str, Any]:
        return {"port": self.world.gateway.address[1], "ca": self.world.gateway.served.account.pem}


@pytest.fixture
async def tenant(sdk: Sdk, manifests: dict[str, Any], tmp_path: Path) -> AsyncIterator[Tenant]:
    world, now = new_world(tmp_path), int(time.time())
    made = await sdk.do("account", mnemonic=TEST_MNEMONIC, now=now)
    world.clock.set(time.time())  # the certificate begins after the program has started
    sdl = manifests["base-simple-v2.0"]
    found = Tenant(made, world, sdl["manifest"])
    deployment = deployed(made["address"], 42, manifest_from_json(sdl["manifest"].encode()))
    assert deployment.hash.hex() == sdl["version"]
    rented(world.chain, deployment, found.lease)
    world.chain.public_keys[made["address"]] = bytes.fromhex(made["pubkey"])
    _publish(world, made)
    async with world.running():
        yield found


def _publish(world: World, made: dict[str, Any]) -> None:
    """As `createCertificate` of the SDK would bring it onto the chain."""
    from cryptography import x509

    serial = x509.load_pem_x509_certificate(made["cert"].encode()).serial_number
    published = PublishedCertificate(CertificateState.VALID, made["cert"].encode(), made["publicKey"].encode())
    world.chain.published[made["address"], serial] = published


def _runs(tenant: Tenant) -> None:
    world, space = tenant.world, namespace_name(tenant.lease)
    place(world.cluster, NAMESPACE, space)
    counts = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), 2)
    place(world.cluster, DEPLOYMENT, "web", namespace=space, spec={}, status=counts)
    world.cluster.put(pod_object(space, "web-1", "web"))
    world.pods.log_of("web-1").write(b"one", b"two")


async def test_a_tenant_of_the_sdk_sends_its_manifest_and_reads_its_lease(sdk: Sdk, tenant: Tenant) -> None:
    assert tenant.made["address"] == tenant.made["direct"]
    put = {"method": "PUT", "path": "/deployment/42/manifest", "body": tenant.manifest}
    get = {"method": "GET", "path": "/lease/42/1/1/status"}
    _runs(tenant)
    wanted = [
        put,
        {**put, "token": tenant.token},
        {**get, "token": tenant.token},
        {**get, "certificate": tenant.certificate},
        {**get, "path": "/lease/42/1/1/manifest", "token": tenant.token},
        {**get, "token": tenant.token, "certificate": tenant.certificate},
    ]
    answers = await sdk.do("requests", requests=wanted, **tenant.place())
    assert [each["status"] for each in answers] == [401, 200, 200, 200, 200, 400]
    assert answers[2] == answers[3]
    assert json.loads(answers[2]["body"])["services"]["web"]["available"] == 2
    assert _without_endpoints(answers[4]["body"]) == _without_endpoints(tenant.manifest)
    assert await tenant.world.cluster.get(MANIFEST, namespace_name(tenant.lease), namespace="lease")


def _without_endpoints(manifest: str) -> list[Any]:
    """A stored manifest is returned without them, as by the Go provider (gateway.md §3.5)."""
    groups: list[Any] = json.loads(manifest)
    for service in (each for group in groups for each in group["services"]):
        service["resources"].pop("endpoints", None)
    return groups


async def test_logs_and_a_shell_reach_a_tenant_with_the_sdks_token(sdk: Sdk, tenant: Tenant) -> None:
    _runs(tenant)

    async def play(_: Command, execution: FakeExecution) -> None:
        await execution.has_read(5)
        execution.finish(exit_status(7))

    tenant.world.pods.play = play
    await sdk.do(
        "requests",
        requests=[{"method": "PUT", "path": "/deployment/42/manifest", "body": tenant.manifest, "token": tenant.token}],
        **tenant.place(),
    )
    path = "/lease/42/1/1/logs?follow=false&service=web"
    logs = await sdk.do("stream", path=path, token=tenant.token, **tenant.place())
    assert [json.loads(each)["message"] for each in logs["frames"]] == ["one", "two"]
    path = "/lease/42/1/1/shell?cmd0=sh&tty=0&service=web&stdin=1&podIndex=0"
    stdin = (b"h" + b"hello").hex()
    shell = await sdk.do("stream", path=path, token=tenant.token, send=[stdin], count=1, **tenant.place())
    assert bytes.fromhex(shell["frames"][0]) == b'f{"exit_code":7}\n'


@pytest.mark.parametrize("with_certificate", [True, False])
async def test_the_sdk_reads_the_status_over_grpc(sdk: Sdk, tenant: Tenant, with_certificate: bool) -> None:
    world = tenant.world
    await world.gateway.stop()
    async with grpc_world(world) as grpc:
        _publish(world, tenant.made)
        given = {"certificate": tenant.certificate} if with_certificate else {}
        found = await sdk.do("grpc", port=grpc.server.port, **given)
    assert found["hostnames"] == [world.config.public_hostname]
    assert found["streamed"] == [found["cluster"]]
