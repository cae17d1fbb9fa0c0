"""Texts of tenants on their way to the API server, which reads an apply as YAML: every character arrives, or is refused
before anything was sent.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest

from components.errors import BuildError
from components.lease import lease_objects
from components.secrets import seal
from lease.spec import VolumeKind, VolumeSpec
from provider.kube.client import KubeCluster
from tests.components.specs import environment, service, spec

FOLDED = "a \x85 b"
CHARACTERS = [
    "\x01",
    "\x1f",
    "\x7f",
    "\x80",
    "\x85",
    "\x9f",
    "\xa0",
    "\u2028",
    "\ufeff",
    "\ufffe",
    "\uffff",
    "🙂",
    "\U0010ffff",
]


def by_kind(*variables: tuple[str, str]) -> dict[str, Any]:
    return {item["kind"]: item for item in lease_objects(spec(service(environment=environment(*variables))))}


def test_a_value_that_an_apply_would_refuse_or_change_is_held_in_a_secret() -> None:
    made = by_kind(("PLAIN", "é\t\u2028🙂"), ("FOLDED", FOLDED), ("DEL", "\x7f"))
    secret, pod = made["Secret"], made["Deployment"]["spec"]["template"]["spec"]
    assert secret["metadata"]["name"] == "env-web"
    reference = {"name": "env-web", "key": "variable-1"}
    assert pod["containers"][0]["env"][:2] == [
        {"name": "PLAIN", "value": "é\t\u2028🙂"},
        {"name": "FOLDED", "valueFrom": {"secretKeyRef": reference}},
    ]
    assert {key: base64.b64decode(value).decode() for key, value in secret["data"].items()} == {
        "variable-1": FOLDED,
        "variable-2": "\x7f",
    }
    assert set(seal(secret, lambda _: "hidden")["data"].values()) == {"hidden"}


def test_a_service_of_plain_values_has_no_such_secret() -> None:
    assert "Secret" not in by_kind(("A", "1"), ("B", "🙂"))


@pytest.mark.parametrize("character", ["\x7f", "\x85", "\x9f", "\ufffe", "\uffff"])
@pytest.mark.parametrize("field", ["command", "args", "mount"])
def test_such_a_character_elsewhere_is_refused_with_its_place(field: str, character: str) -> None:
    volume = VolumeSpec(name="v", kind=VolumeKind.RAM, size_bytes=1, mount=f"/{character}")
    changes: dict[str, Any] = {"volumes": (volume,)} if field == "mount" else {field: (f"a{character}b",)}
    with pytest.raises(BuildError, match=r"'web'.*without DEL, C1 controls"):
        lease_objects(spec(service(**changes)))


@pytest.mark.devnet
@pytest.mark.parametrize("character", CHARACTERS, ids=[f"U+{ord(char):04X}" for char in CHARACTERS])
async def test_what_the_provider_writes_itself_keeps_every_character(
    devnet_cluster: Any, unique_name: str, character: str
) -> None:
    cluster, text = KubeCluster(devnet_cluster.kubeconfig), f"a {character} b"
    metadata = {"name": unique_name, "namespace": "default", "annotations": {"text": text}}
    stored = await cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    assert stored["metadata"]["annotations"]["text"] == text
    await cluster.aclose()
