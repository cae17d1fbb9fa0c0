"""The law of all builders: what they build, a real API server takes."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import httpx2 as httpx
import pytest
from hypothesis import HealthCheck, given, settings
from lightkube.config.client_adapter import Client, ConnectionParams
from lightkube.config.kubeconfig import KubeConfig

from components.errors import BuildError
from components.lease import lease_objects
from components.service import service_objects
from components.workload import workload_object
from lease.errors import SpecRefused
from lease.ids import LeaseId, namespace_name
from lease.spec import VolumeKind, VolumeSpec
from tests.components.groups import World, lease_of, worlds
from tests.components.recorded import load, names
from tests.components.recorded_specs import recorded_spec
from tests.components.specs import LEASE, environment, everything, port, service, spec

pytestmark = pytest.mark.devnet

PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ResourceQuota": "/api/v1/namespaces/{}/resourcequotas",
    "LimitRange": "/api/v1/namespaces/{}/limitranges",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "Service": "/api/v1/namespaces/{}/services",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "Ingress": "/apis/networking.k8s.io/v1/namespaces/{}/ingresses",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "HTTPRoute": "/apis/gateway.networking.k8s.io/v1/namespaces/{}/httproutes",
    "IPAddressPool": "/apis/metallb.io/v1beta1/namespaces/{}/ipaddresspools",
    "L2Advertisement": "/apis/metallb.io/v1beta1/namespaces/{}/l2advertisements",
}
DRY_RUN = {"fieldManager": "lessor", "force": "true", "dryRun": "All", "fieldValidation": "Strict"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
HOST = rf"^{LABEL}(\.{LABEL})*$"

Send = Callable[[dict[str, Any]], str]


def as_yaml(made: dict[str, Any]) -> bytes:
    """JSON that is YAML too: a server-side apply is read as YAML, which knows neither surrogate pairs nor bare control
    characters. The engine's plugin writes YAML to begin with.
    """
    text = json.dumps(made, ensure_ascii=False)
    return re.sub("[\x7f-\x9f\ufeff\ufffe\uffff]", lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def texts(**more: Any) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": 253} | more


def listed(**properties: Any) -> dict[str, Any]:
    return {"type": "array", "minItems": 1, "items": {"type": "object", "properties": properties}}


def route_definition() -> dict[str, Any]:
    """What the Gateway API says of the part of an HTTPRoute that we write, with its limits."""
    path = {"type": {"type": "string", "enum": ["Exact", "PathPrefix"]}, "value": texts(pattern="^/")}
    rule = {
        "matches": listed(path={"type": "object", "properties": path}),
        "backendRefs": listed(name=texts(), port={"type": "integer", "minimum": 1, "maximum": 65535}),
    }
    wanted = {
        "parentRefs": listed(group=texts(), kind=texts(), name=texts(), namespace=texts(maxLength=63)),
        "hostnames": {"type": "array", "maxItems": 16, "items": texts(pattern=HOST)},
        "rules": listed(**rule),
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": wanted}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "httproutes.gateway.networking.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test's"},
        },
        "spec": {
            "group": "gateway.networking.k8s.io",
            "scope": "Namespaced",
            "names": {
                "kind": "HTTPRoute",
                "plural": "httproutes",
                "singular": "httproute",
                "listKind": "HTTPRouteList",
            },
            "versions": [version],
        },
    }


@pytest.fixture(scope="module")
def http(devnet_cluster: Any) -> Iterator[httpx.Client]:
    config = KubeConfig.from_file(devnet_cluster.kubeconfig).get()
    assert config is not None
    with Client(config, ConnectionParams(timeout=httpx.Timeout(30), trust_env=False)) as http:
        definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/httproutes.gateway.networking.k8s.io"
        asked = {"fieldManager": "lessor-tests", "force": "true"}
        http.patch(definition, params=asked, headers=APPLY, content=json.dumps(route_definition())).raise_for_status()
        devnet_cluster.kubectl(
            "wait", "--for=condition=Established", "--timeout=30s", "crd/httproutes.gateway.networking.k8s.io"
        )
        yield http


@pytest.fixture(scope="module")
def lease(http: httpx.Client) -> Iterator[LeaseId]:
    """A lease whose namespace exists; nothing else of it ever does."""
    lease = LeaseId(LEASE.owner, secrets.randbelow(2**63) + 1, 1, 1, LEASE.provider)
    name = namespace_name(lease)
    http.post("/api/v1/namespaces", json={"metadata": {"name": name}}).raise_for_status()
    yield lease
    http.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="module")
def send(http: httpx.Client) -> Send:
    """Server-side apply of one object as a dry run; what the API server has against it, or nothing."""

    def send(made: dict[str, Any]) -> str:
        metadata = made["metadata"]
        path = f"{PATHS[made['kind']].format(metadata.get('namespace'))}/{metadata['name']}"
        answer = http.patch(path, params=DRY_RUN, headers=APPLY, content=as_yaml(made))
        return "" if answer.is_success else f"{made['kind']}: {answer.json()['message']}"

    return send


def complaints(made: tuple[dict[str, Any], ...], send: Send) -> list[str]:
    return [said for said in map(send, made) if said]


def check_law(lease: LeaseId, send: Send, *, examples: int) -> Counter[str]:
    """The law for `examples` worlds; how many were built and how many refused by ourselves."""
    seen: Counter[str] = Counter()

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(worlds())
    def law(world: World) -> None:
        try:
            made = lease_objects(lease_of(world, lease))
        except (SpecRefused, BuildError):
            seen["refused"] += 1
            return
        seen["built"] += 1
        assert complaints(made, send) == []

    law()
    return seen


def test_whatever_is_built_the_api_server_takes(lease, send):
    seen = check_law(lease, send, examples=30)
    assert seen["built"] >= 3, seen


@pytest.mark.long
def test_whatever_is_built_the_api_server_takes_at_length(lease, send):
    seen = check_law(lease, send, examples=int(os.environ.get("LESSOR_EXAMPLES", "600")))
    assert seen["built"] > seen["refused"] / 2, seen


@pytest.mark.parametrize("mode", ["ingress", "gateway-api"])
def test_the_lease_that_uses_every_builder_is_taken(lease, send, mode):
    made = everything()
    cluster = made.cluster.model_copy(update={"ingress_mode": type(made.cluster.ingress_mode)(mode)})
    assert complaints(lease_objects(made.model_copy(update={"lease": lease, "cluster": cluster})), send) == []


@pytest.mark.long
@pytest.mark.parametrize("name", names())
def test_every_recorded_lease_as_we_build_it_is_taken(lease, send, name):
    recording = load(name)
    if recording["manifest_put"]["status"] == 200:
        made = recorded_spec(recording).model_copy(update={"lease": lease})
        assert complaints(lease_objects(made), send) == []


def edited(kind: str, edit: Callable[[dict[str, Any]], object], lease: LeaseId) -> dict[str, Any]:
    made = everything().model_copy(update={"lease": lease})
    cluster = made.cluster.model_copy(update={"ingress_mode": "gateway-api"}) if kind == "HTTPRoute" else made.cluster
    found = next(item for item in lease_objects(made.model_copy(update={"cluster": cluster})) if item["kind"] == kind)
    edit(found)
    return found


@pytest.mark.parametrize(
    ("kind", "edit"),
    [
        ("Deployment", lambda item: item["spec"].update(replicas=-1)),
        ("Deployment", lambda item: item["spec"].update(replicaz=1)),
        ("Service", lambda item: item["spec"]["ports"].append(dict(item["spec"]["ports"][0]))),
        ("Ingress", lambda item: item["spec"]["rules"][0].update(host="192.0.2.1")),
        ("HTTPRoute", lambda item: item["spec"].update(hostnames=["A.b"])),
        ("HTTPRoute", lambda item: item["spec"].update(timeouts=1)),
        ("NetworkPolicy", lambda item: item["spec"].update(policyTypes=["In"])),
        ("IPAddressPool", lambda item: item["spec"].update(addresses="192.0.2.1")),
    ],
)
def test_the_api_server_here_refuses_what_is_wrong(lease, send, kind, edit):
    """Otherwise the law above would hold for nothing."""
    assert send(edited(kind, edit, lease))


@pytest.mark.parametrize(
    "wrong",
    [
        service("w" * 63, ports=(port(8080, global_=True),)),
        service(image=""),
        service(cpu_request_milli=11),
        service(count=2**31),
        service(environment=environment(("A=B", "x"))),
        service(volumes=(VolumeSpec(name="My", kind=VolumeKind.RAM, size_bytes=1, mount="/a"),)),
    ],
)
def test_what_only_the_last_look_refuses_the_api_server_would_refuse_half_way(lease, send, wrong):
    """The builders themselves would make it."""
    held = spec(wrong, lease=lease)
    assert complaints((workload_object(held, wrong), *service_objects(held, wrong)), send)
    with pytest.raises(BuildError):
        lease_objects(held)
