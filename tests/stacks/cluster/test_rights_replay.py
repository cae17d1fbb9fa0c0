"""Each process has the rights that it uses, and no other: the stack's roles beside the API server's audit log."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from devnet.controlplane import AUDIT_LOG, AUDIT_POLICY, ControlPlane
from devnet.tools import Toolbox
from devnet.world import ProviderProcess, World
from devnet.world.terms import Terms
from lease.ids import LeaseId, namespace_name
from lease.manifest_json import manifest_version
from stacks.cluster.rbac import PROVIDER_RULES
from tests.data import SDL
from tests.stacks.cluster import rights_replay
from tests.stacks.cluster.rights_replay import Right, granted_to, missing, refused, rules_of, unused, used_by
from tests.whole.conftest import Rented, close, deploy, rent, sdl_of
from tests.world.patience import PATIENCE_S, eventually

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SERVICES = "akash-services"

RIGHTS = {
    Right("", "pods", "list"),
    Right("", "pods", "create", "akash-services"),
    Right("", "services/proxy", "get", "akash-services", "operator-inventory:rest"),
}
ASKED = {
    Right("", "pods", "list", "a"),
    Right("", "pods", "create", "akash-services", "p"),
    Right("", "services/proxy", "get", "akash-services", "operator-inventory:rest"),
}


def test_a_comparison_of_what_is_asked_and_what_is_given_is_even() -> None:
    assert (missing(RIGHTS, ASKED), unused(RIGHTS, ASKED)) == (set(), set())


@pytest.mark.parametrize("right", sorted(RIGHTS))
def test_a_removed_rule_is_missing(right: Right) -> None:
    assert len(missing(RIGHTS - {right}, ASKED)) == 1


@pytest.mark.parametrize(
    "right",
    [
        Right("", "secrets", "get"),
        Right("", "pods", "delete"),
        Right("", "pods", "list", "lease"),
        Right("", "services/proxy", "get", "akash-services", "another:rest"),
        Right("apps", "pods", "list"),
    ],
)
def test_an_added_rule_is_unused(right: Right) -> None:
    assert unused(RIGHTS | {right}, ASKED) == {right}


def test_rights_in_another_namespace_or_on_another_object_do_not_help() -> None:
    own = Right("", "secrets", "get", "a", "x")
    assert missing({own}, {Right("", "secrets", "get", "b", "x"), Right("", "secrets", "get", "a", "y")}) != set()


def test_an_audit_log_is_read_by_account(tmp_path: Path) -> None:
    def entry(account: str, code: int, decision: str = "allow", **what: str) -> str:
        user = {"username": f"system:serviceaccount:{SERVICES}:{account}"}
        notes = {"authorization.k8s.io/decision": decision}
        return json.dumps(
            {
                "user": user,
                "verb": what.pop("verb"),
                "objectRef": what,
                "responseStatus": {"code": code},
                "annotations": notes,
            }
        )

    pod = {"resource": "pods", "namespace": "a", "name": "p"}
    lines = [
        entry("lessor", 201, verb="patch", **pod),
        entry("lessor", 403, "forbid", verb="get", apiGroup="apps", resource="deployments", subresource="scale"),
        entry("operator-ip", 200, verb="list", resource="services"),
    ]
    (tmp_path / "log").write_text("\n".join(lines))
    assert used_by("lessor", tmp_path / "log") == {
        Right("", "pods", "patch", "a", "p"),
        Right("", "pods", "create", "a", "p"),
        Right("apps", "deployments/scale", "get"),
    }
    assert refused("lessor", tmp_path / "log") == {Right("apps", "deployments/scale", "get")}


@dataclass(frozen=True)
class Accounts:
    """Kubeconfigs of the stack's accounts, and what the API server has logged of them."""

    world: World
    folder: Path

    def kubeconfig(self, name: str) -> str:
        token = self.kubectl("create", "token", name, "-n", SERVICES, "--duration=1h").strip()
        document = yaml.safe_load(self.world.plane.kubeconfig.read_text())
        document["users"] = [{"name": document["users"][0]["name"], "user": {"token": token}}]
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return str(path)

    def kubectl(self, *arguments: str, text: str = "") -> str:
        command = [str(self.world.plane.toolbox.program("kubectl")), *arguments]
        env = self.world.plane.env()
        return subprocess.run(command, env=env, input=text, capture_output=True, text=True, check=True).stdout

    def granted(self, name: str) -> set[Right]:
        kinds = "roles,rolebindings,clusterroles,clusterrolebindings"
        found = json.loads(self.kubectl("get", kinds, "-A", "-l", "app.kubernetes.io/managed-by=lessor", "-o", "json"))
        return granted_to(name, found["items"])

    def serves(self, *plurals: str) -> bool:
        """Whether the API server lists these; right after their definition it may answer 429."""
        try:
            return all(self.kubectl("get", f"{one}.gateway.networking.k8s.io", "-A") is not None for one in plurals)
        except subprocess.CalledProcessError:
            return False

    def routes(self, namespace: str) -> set[str]:
        """The kinds of the objects that publish the hostnames of a lease."""
        listed = self.kubectl("get", "ingresses,httproutes", "-n", namespace, "-o", "name")
        return {line.partition("/")[0].partition(".")[0] for line in listed.split()}

    @property
    def log(self) -> Path:
        return self.folder / "controlplane" / "logs" / AUDIT_LOG


@asynccontextmanager
async def audited(folder: Path, toolbox: Toolbox) -> AsyncIterator[Accounts]:
    """A world whose API server logs what the stack's accounts ask, with the Gateway API's routes."""
    data = folder / "controlplane"
    data.mkdir()
    (data / AUDIT_POLICY).write_text(yaml.safe_dump(rights_replay.AUDIT_POLICY))
    with ControlPlane.start(data, toolbox) as plane:
        processes = {"image": "registry.example/lessor:1.0", "account": "akash1" + "q" * 38}
        endpoints = {"LESSOR_API_SERVER_ENDPOINTS": plane.api_server.removeprefix("https://")}
        plain = Terms()
        terms = replace(plain, stack={"lessor:processes": processes}, provider={**plain.provider, **endpoints})
        async with World.around(folder, plane, terms) as world:
            accounts = Accounts(world, folder)
            accounts.kubectl(
                "create", "-f", "-", text=json.dumps(_list(map(route_definition, ("Gateway", "HTTPRoute"))))
            )
            await world.apply_cluster_stack(lambda _: None)
            await eventually(lambda: accounts.serves("httproutes", "gateways"))
            accounts.kubectl("create", "-f", "-", text=json.dumps(_list(a_gateway())))
            await world.register_provider()
            yield accounts


def _list(items: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def a_gateway() -> list[dict[str, Any]]:
    """The Gateway that the settings of the provider name."""
    api, name = "gateway.networking.k8s.io/v1", "akash-gateway"
    gateway = {"apiVersion": api, "kind": "Gateway", "metadata": {"name": name, "namespace": name}}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, gateway]


def route_definition(kind: str) -> dict[str, Any]:
    """A custom resource of the Gateway API that takes everything."""
    plural = f"{kind.lower()}s"
    open_ = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": open_},
        "subresources": {"status": {}},
    }
    group = "gateway.networking.k8s.io"
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    approved = {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api/pull/1"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": approved},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def lessor(env: Mapping[str, str], *arguments: str) -> None:
    """A command of the operator's, whose result does not matter: simulated pods have no logs and run nothing."""
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("lessor"),
        *arguments,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    await asyncio.wait_for(process.wait(), 60)


async def the_provider_serves_leases(accounts: Accounts) -> None:
    """Leases of every form, updates, logs and a shell, a repair, a restart in the other ingress mode, and volumes that
    are kept.
    """
    world = accounts.world
    account = accounts.kubeconfig("lessor")
    provider = await world.run_provider(
        KUBECONFIG=account, LESSOR_VOLUME_QUARANTINE="1h", LESSOR_INVENTORY_ENDPOINT="off"
    )
    demo, reading = [
        await rent(world, sdl_of(path)) for path in (EXAMPLES / "demo.yaml", SDL / "edge-permissions-read.yaml")
    ]
    await asyncio.gather(*(deploy(world, provider, one) for one in (demo, reading)))
    for one in (demo, reading):
        for arguments in (("logs", str(one.lease)), ("shell", "--service", "web", str(one.lease), "true")):
            await lessor(world.provider_env(KUBECONFIG=account), "lease", *arguments)
    space = namespace_name(demo.lease)
    accounts.kubectl("delete", "service", "web", "-n", space)
    await eventually(lambda: "web" in accounts.kubectl("get", "services", "-n", space, "-o", "name"), seconds=120)
    await the_operators_answer(accounts, demo.lease)
    await updated(accounts, provider, demo, image="docker.io/library/nginx:1.28")
    await updated(accounts, provider, reading, name="www")
    await provider.stop()
    provider = await world.run_provider(
        KUBECONFIG=account,
        LESSOR_VOLUME_QUARANTINE="1h",
        LESSOR_INVENTORY_ENDPOINT="off",
        AP_INGRESS_MODE="gateway-api",
    )
    await eventually(lambda: accounts.routes(space) == {"httproute"}, seconds=PATIENCE_S)
    await updated(accounts, provider, demo, image="docker.io/library/nginx:1.29")
    await close(world, provider, reading)
    await world.tenant.close_deployment(demo.deployment)
    await provider.wait_for("lease.state", lease=str(demo.lease), phase="quarantined", seconds=120)
    await provider.stop()


async def updated(accounts: Accounts, provider: ProviderProcess, rented: Rented, **changes: str) -> None:
    """Send a version in which the service `web` has changed, and wait until it runs."""
    (group,) = rented.sdl.manifest
    services = tuple(replace(one, **changes) if one.name == "web" else one for one in group.services or ())  # type: ignore[arg-type]
    manifest = (replace(group, services=services),)
    changed = replace(rented.sdl, manifest=manifest, version=manifest_version(manifest))
    await accounts.world.tenant.announce_update(rented.deployment, changed)
    mark = len(provider.events)
    assert (await accounts.world.tenant.send_manifest(rented.lease, changed)).status == 200
    await provider.wait_for("stack.result", after=mark, operation="up", ok=True, seconds=120)


async def the_operators_answer(accounts: Accounts, lease: LeaseId) -> None:
    """The operators for hostnames and addresses read what there is, and are asked what they know."""
    rest = {"operator-hostname": free_port(), "operator-ip": free_port()}
    running = []
    for name, port in rest.items():
        command = ["operator", name.removeprefix("operator-"), f"--rest-port={port}", "--grpc-port=0"]
        command += [f"--provider={lease.provider}"] if name == "operator-ip" else ["--hostname-check-interval=1s"]
        env = {**accounts.world.provider_env(), "KUBECONFIG": accounts.kubeconfig(name)}
        lessor = Path(sys.executable).with_name("lessor")
        running.append(await asyncio.create_subprocess_exec(lessor, *command, env=env))
    status = f"/ip-lease-status/{lease.owner}/{lease.dseq}/{lease.gseq}/{lease.oseq}"
    try:
        async with aiohttp.ClientSession() as session:
            for name, path in (("operator-ip", status), ("operator-ip", "/usage"), ("operator-hostname", "/health")):
                await answered(session, f"http://127.0.0.1:{rest[name]}{path}")
        await eventually(lambda: any(one.verb == "patch" for one in used_by("operator-hostname", accounts.log)))
    finally:
        for process in running:
            process.terminate()
            await process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def answered(session: aiohttp.ClientSession, url: str) -> None:
    for _ in range(300):
        with contextlib.suppress(aiohttp.ClientError):
            async with session.get(url) as response:
                if response.status < 300:
                    return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{url} does not answer")


_OF_A_LEASE = {
    "": ("services", "secrets", "serviceaccounts", "resourcequotas", "limitranges"),
    "apps": ("deployments", "statefulsets"),
    "networking.k8s.io": ("networkpolicies", "ingresses"),
    "rbac.authorization.k8s.io": ("roles", "rolebindings"),
    "gateway.networking.k8s.io": ("httproutes",),
}
_ROUTES = {
    "gateway.networking.k8s.io": ("grpcroutes", "tlsroutes"),
    "traefik.io": ("ingressroutes", "ingressroutetcps"),
}
_RARE: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {
    "an update may drop any object of a lease, and a refresh reads it": {
        group: dict.fromkeys(names, ("delete", "get")) for group, names in _OF_A_LEASE.items()
    },
    "routes of an operator's own, where their custom resources exist": {
        group: dict.fromkeys(names, ("get", "list", "watch")) for group, names in _ROUTES.items()
    },
    "without LESSOR_API_SERVER_ENDPOINTS, and for GPUs": {
        "": {"endpoints": ("get",)},
        "node.k8s.io": {"runtimeclasses": ("get",)},
    },
    "lessor lease restore, and a pod that an operator deletes": {
        "": {
            "persistentvolumeclaims": ("get", "patch", "delete"),
            "persistentvolumes": ("get", "patch"),
            "pods": ("get", "delete"),
        },
        "storage.k8s.io": {"storageclasses": ("get", "list", "watch")},
    },
    "a tenant's Role may have it": {"": {"events": ("get", "list", "watch")}},
    "streams of events and nodes that fail": {
        "events.k8s.io": {"events": ("get", "list", "watch")},
        "": {"nodes": ("get",)},
    },
    "several provider processes, one of which leads": {"coordination.k8s.io": {"leases": ("get", "create", "patch")}},
    "newer API servers ask for it": {"": {"pods/exec": ("create",)}},
    "claims are read by lists, and one by its name in a migration": {
        "akash.network": dict.fromkeys(("providerhosts", "providerleasedips"), ("get",)),
    },
}
"""What one run cannot show, with the cause that needs it."""


def rare() -> set[Right]:
    return {
        Right(group, resource, verb)
        for of_cause in _RARE.values()
        for group, resources in of_cause.items()
        for resource, verbs in resources.items()
        for verb in verbs
    }


@pytest.mark.devnet
@pytest.mark.long
@pytest.mark.xdist_group("rights-replay")
async def test_every_process_has_the_rights_that_it_uses_and_no_other(tmp_path: Path, toolbox: Toolbox) -> None:
    async with audited(tmp_path, toolbox) as accounts:
        await the_provider_serves_leases(accounts)
        for name in ("lessor", "operator-hostname", "operator-ip"):
            used, granted = used_by(name, accounts.log), accounts.granted(name)
            assert refused(name, accounts.log) == set(), name
            assert missing(granted, {one for one in used if one.group != "authorization.k8s.io"}) == set(), name
            assert unused(granted, used) - rare() == set(), name


def test_what_is_excused_is_given() -> None:
    """A right that is gone needs no excuse."""
    given = set(
        rules_of(
            {
                "rules": [
                    dict(zip(("apiGroups", "resources", "verbs"), ([g], r, v), strict=True))
                    for g, r, v in PROVIDER_RULES
                ]
            }
        )
    )
    assert rare() - given == set()
