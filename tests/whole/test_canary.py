"""A tenant's secrets through a whole life: found in the pod, its pull Secret and the two records, and nowhere else."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from devnet.demo.leftovers import leftovers
from devnet.world import ProviderProcess, World
from lease.ids import namespace_name
from lease.manifest import Credentials, Group
from lease.manifest_json import manifest_version
from lease.sdl import Sdl
from tests.whole.canary import Canary, Watch
from tests.whole.conftest import MARKS, Rented, close, deploy, rent, sdl_of
from tests.world.patience import PATIENCE_S

pytestmark = MARKS
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FORBIDDEN = "docker.io/library/nginx:forbidden"
_PODS = {"Deployment", "ReplicaSet", "Pod"}


@dataclass(frozen=True)
class Life:
    """One lease that carries `canary`; `temporary` is the provider's TMPDIR."""

    world: World
    rented: Rented
    canary: Canary
    temporary: Path

    @property
    def namespace(self) -> str:
        return namespace_name(self.rented.lease)

    @property
    def home(self) -> Path:
        return self.world.data / "provider"

    @property
    def places(self) -> list[Path]:
        """Every folder and file that the provider and its children write."""
        return [self.home, self.world.data / "provider.log", self.temporary, self.world.data / "cluster-stack"]

    async def update(self, sdl: Sdl) -> None:
        await self.world.tenant.announce_update(self.rented.deployment, sdl)
        assert (await self.world.tenant.send_manifest(self.rented.lease, sdl)).status == 200

    async def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        kubectl = [str(self.world.plane.toolbox.program("kubectl")), "--kubeconfig", str(self.world.plane.kubeconfig)]
        argv = [*kubectl, *arguments]
        done = await asyncio.to_thread(
            subprocess.run, argv, input=stdin, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return str(done.stdout)


@pytest.mark.long
async def test_a_secret_is_nowhere_but_in_the_pod_and_the_records_even_when_an_error_quotes_it(
    world: World, tmp_path: Path
) -> None:
    async with asyncio.timeout(4 * PATIENCE_S):
        canary = Canary()
        provider = await world.run_provider(seconds=2 * PATIENCE_S, TMPDIR=str(tmp_path))
        try:
            life = await _begin(world, canary, tmp_path)
            with _watched(life) as watch:
                await deploy(world, provider, life.rented)
                await _refused_update(life, provider)
                await _everything_said(life)
                await _in_the_cluster(life)
                await close(world, provider, life.rented)
            assert "lessor-engine" in watch.seen, "the watch saw no run of the engine"
            await _nothing_left(life)
        finally:
            await provider.stop()


@pytest.mark.long
async def test_a_secret_stays_secret_through_previews_repairs_a_refusal_and_a_restart(
    world: World, tmp_path: Path
) -> None:
    canary = Canary()
    changes = {"TMPDIR": str(tmp_path), "LESSOR_PREVIEW_UPDATES": "true", "LESSOR_LOG_LEVEL": "debug"}
    provider = await world.run_provider(seconds=2 * PATIENCE_S, **changes)
    try:
        life = await _begin(world, canary, tmp_path)
        with _watched(life) as watch:
            await deploy(world, provider, life.rented)
            await _update(life, provider, "docker.io/library/nginx:1.28")
            await _drift(life, provider)
            await _refused_update(life, provider)
            await provider.stop()
            provider = await world.run_provider(seconds=2 * PATIENCE_S, **changes)
            await _update(life, provider, "docker.io/library/nginx:1.29")
            await _everything_said(life)
            await _in_the_cluster(life)
            told = json.loads(await _lessor(life, "lease", "history", life.namespace, "--json"))
            asked = [(run["asked_by"], run["outcome"]) for run in reversed(told) if run["operation"] == "up"]
            await close(world, provider, life.rented)
        assert {"lessor-engine", "pulumi-resource"} <= {name[:15] for name in watch.seen}
        assert asked == [
            ("first deployment", "done"), ("manifest update", "done"), ("drift repair", "done"),
            ("manifest update", "refused"), ("manifest update", "done"),
        ]  # fmt: skip
        assert {run["operation"] for run in told} == {"up", "preview", "refresh"}
        await _nothing_left(life)
    finally:
        await provider.stop()


async def _begin(world: World, canary: Canary, temporary: Path) -> Life:
    """A lease whose manifest is not sent yet."""
    rented = await rent(world, _with_canary(sdl_of(EXAMPLES / "web.yaml"), canary))
    return Life(world, rented, canary, temporary)


@contextmanager
def _watched(life: Life) -> Iterator[Watch]:
    """The state is looked at between operations only: until a refused one ends, the engine's own message is in it."""
    with Watch(life.canary, [life.temporary, life.home / "engine" / "tmp", life.home / "tmp"]) as watch:
        yield watch
    assert watch.leaks == set(), watch.contexts
    assert life.canary.in_files(life.places) == []


async def _update(life: Life, provider: ProviderProcess, image: str) -> None:
    mark = len(provider.events)
    await life.update(_with_image(life.rented.sdl, image))
    await provider.wait_for("stack.result", after=mark, operation="up", ok=True, seconds=2 * PATIENCE_S)
    await provider.wait_for(
        "lease.state", after=mark, lease=str(life.rented.lease), phase="running", seconds=2 * PATIENCE_S
    )


async def _drift(life: Life, provider: ProviderProcess) -> None:
    mark = len(provider.events)
    await life.kubectl("delete", "deployment", "web", "-n", life.namespace)
    await provider.wait_for("stack.result", after=mark, operation="refresh", seconds=2 * PATIENCE_S)
    await provider.wait_for("stack.result", after=mark, operation="up", ok=True, seconds=2 * PATIENCE_S)
    await provider.wait_for(
        "lease.state", after=mark, lease=str(life.rented.lease), phase="running", seconds=2 * PATIENCE_S
    )


async def _refused_update(life: Life, provider: ProviderProcess) -> None:
    """The API server refuses a version and quotes its environment; the previous version stays."""
    await life.kubectl("apply", "-f", "-", stdin=json.dumps(_policy(life)))
    try:
        await _until_refusing(life)
        mark = len(provider.events)
        await life.update(_with_image(life.rented.sdl, FORBIDDEN))
        state = "update failed (running the previous version)"
        said = await provider.wait_for(
            "lease.state", after=mark, lease=str(life.rented.lease), phase=state, seconds=2 * PATIENCE_S
        )
        assert "the environment is" in said["reason"] and "[secret]" in said["reason"]
    finally:
        await life.kubectl("delete", "-f", "-", "--ignore-not-found", stdin=json.dumps(_policy(life)))


async def _until_refusing(life: Life) -> None:
    """A policy counts some seconds after it was made."""
    deadline = time.monotonic() + 60
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": FORBIDDEN}]}}}}
    while True:
        try:
            await life.kubectl(
                "patch", "deployment", "web", "-n", life.namespace, "--dry-run=server", "-p", json.dumps(patch)
            )
        except AssertionError as error:
            assert life.canary.core in str(error), "the policy has to quote the environment, or the test shows nothing"
            return
        assert time.monotonic() < deadline, "the policy refuses nothing"
        await asyncio.sleep(0.3)


def _policy(life: Life) -> dict[str, Any]:
    name = f"canary-{life.namespace[:12]}"
    containers = "object.spec.template.spec.containers"
    quoted = f"'the environment is ' + {containers}[0].env.map(e, has(e.value) ? e.name + '=' + e.value : '').join(' ')"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": ["apps"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["deployments"],
                    }
                ]
            },
            "validations": [
                {"expression": f"{containers}.all(c, c.image != '{FORBIDDEN}')", "messageExpression": quoted}
            ],
        },
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": life.namespace}}
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"], "matchResources": {"namespaceSelector": selector}},
    }
    return {"apiVersion": "v1", "kind": "List", "items": [policy, binding]}


async def _everything_said(life: Life) -> None:
    """Answers of the gateway, and what the command line tells."""
    gateway = await life.world.tenant.gateway(life.world.provider)
    status = await gateway.lease_status(life.rented.deployment.dseq)
    assert status.status == 200
    own = await gateway.request("GET", "/status", token="")
    assert life.canary.in_files(life.places) == []
    told = [
        await _lessor(life, "lease", command, life.namespace, *options)
        for command in ("show", "history")
        for options in ((), ("--json",))
    ]
    assert "the environment is [secret]" not in status.body
    assert any("[secret]" in text for text in told), "the refusal is in the history"
    for text in (status.body, own.body, *told, await _lessor(life, "lease", "list", "--json")):
        assert not life.canary.found(text.encode()), text


async def _lessor(life: Life, *arguments: str) -> str:
    """An operator's command beside the running provider."""
    argv = [str(Path(sys.executable).with_name("lessor")), *arguments]
    env = life.world.provider_env()
    done = await asyncio.to_thread(
        subprocess.run, argv, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return str(done.stdout + done.stderr)


async def _in_the_cluster(life: Life) -> None:
    """Every object of every kind: the canary is in these, and in no other."""
    kinds = (await life.kubectl("api-resources", "--verbs=list", "-o", "name")).split()
    listed = json.loads(await life.kubectl("get", ",".join(kinds), "-A", "-o", "json"))["items"]
    found = {
        (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
        for item in listed
        if life.canary.found(json.dumps(item).encode())
    }
    inside = {key for key in found if key[1] == life.namespace}
    assert found - inside == {
        ("Manifest", life.world.records, life.namespace),
        ("Secret", life.world.records, f"applied-{life.namespace}"),
    }
    kinds_inside = {kind for kind, _, _ in inside}
    assert "Deployment" in kinds_inside and "Secret" in kinds_inside
    assert kinds_inside <= {*_PODS, "Secret"}
    assert len([key for key in inside if key[0] == "Secret"]) == 1, "only the pull Secret"


async def _nothing_left(life: Life) -> None:
    assert await leftovers(life.world, life.rented.lease) == ()
    told = await _lessor(life, "lease", "history", life.namespace, "--json")
    runs = json.loads(told)
    assert (runs[0]["operation"], runs[0]["asked_by"], runs[0]["outcome"]) == ("destroy", "close", "done")
    assert not life.canary.found(told.encode())
    assert life.canary.in_files(life.places) == []


def _with_canary(sdl: Sdl, canary: Canary) -> Sdl:
    (group,) = sdl.manifest
    secret = Credentials("registry.example.com", "me@example.com", f"user-{canary.core}", canary.value)
    services = tuple(
        replace(service, env=(f"TOKEN={canary.value}", "PLAIN=shown"), credentials=secret)
        for service in group.services or ()
    )
    return _with_group(sdl, replace(group, services=services))


def _with_image(sdl: Sdl, image: str) -> Sdl:
    (group,) = sdl.manifest
    services = tuple(replace(service, image=image) for service in group.services or ())
    return _with_group(sdl, replace(group, services=services))


def _with_group(sdl: Sdl, group: Group) -> Sdl:
    return replace(sdl, manifest=(group,), version=manifest_version((group,)))
