"""What holds for every lease that is built, whatever its tenant wrote."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import HealthCheck, given, settings

from components.errors import BuildError
from components.isolation import CLOSED_RANGES, MORE_CLOSED_RANGES
from components.lease import lease_objects
from components.secrets import seal
from lease.build import UNRENTED_EPHEMERAL_BYTES
from lease.errors import SpecRefused
from lease.spec import LeaseSpec, VolumeKind
from tests.components.groups import World, lease_of, worlds
from tests.components.specs import LEASE

LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
ANNOTATION = re.compile(r"[ -~]*")
Objects = tuple[dict[str, Any], ...]


def pods(made: Objects) -> list[dict[str, Any]]:
    return [item["spec"]["template"]["spec"] for item in made if item["kind"] in ("Deployment", "StatefulSet")]


def no_lease_is_without_its_restrictions_while_policies_are_on(lease: LeaseSpec, made: Objects) -> None:
    """kubernetes-objects.md §10 Q14, Q17"""
    found = [item for item in made if item["metadata"]["name"] == "akash-deployment-restrictions"]
    assert len(found) == (1 if lease.cluster.network_policies else 0)
    for policy in found:
        assert policy["spec"]["podSelector"] == {}
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        (world_rule,) = [peer for rule in policy["spec"]["egress"] for peer in rule["to"] if "ipBlock" in peer]
        assert world_rule["ipBlock"]["except"] == [*CLOSED_RANGES, *MORE_CLOSED_RANGES]


def nothing_but_plain_text_reaches_labels_and_annotations(lease: LeaseSpec, made: Objects) -> None:
    for item in made:
        metadata = item["metadata"]
        template = item.get("spec", {}).get("template", {}).get("metadata", {}).get("labels", {})
        assert all(LABEL.fullmatch(value) for value in (metadata["labels"] | template).values())
        assert all(ANNOTATION.fullmatch(value) for value in metadata.get("annotations", {}).values())


def every_mount_has_its_volume_and_every_ephemeral_byte_is_asked_for(lease: LeaseSpec, made: Objects) -> None:
    """kubernetes-objects.md §10 Q9, Q10"""
    templates = {
        template["metadata"]["name"]
        for item in made
        if item["kind"] == "StatefulSet"
        for template in item["spec"]["volumeClaimTemplates"]
    }
    for pod in pods(made):
        volumes = {volume["name"] for volume in pod.get("volumes", [])} | templates
        assert {mount["name"] for mount in pod["containers"][0].get("volumeMounts", [])} <= volumes
    for service in lease.services:
        ephemeral = [volume.size_bytes for volume in service.volumes if volume.kind is VolumeKind.EPHEMERAL]
        assert service.ephemeral_limit_bytes == (sum(ephemeral) or UNRENTED_EPHEMERAL_BYTES)


def every_port_and_protocol_that_is_exposed_is_served(lease: LeaseSpec, made: Objects) -> None:
    """kubernetes-objects.md §10 Q8"""
    served: dict[str, set[tuple[int, str]]] = {}
    for item in made:
        if item["kind"] == "Service" and item["spec"]["type"] != "LoadBalancer":
            name = item["spec"]["selector"]["akash.network/manifest-service"]
            served.setdefault(name, set()).update((port["port"], port["protocol"]) for port in item["spec"]["ports"])
    for service in lease.services:
        wanted = {(port.external_port, port.proto.upper()) for port in service.ports}
        assert served.get(service.name, set()) == wanted


def the_same_spec_makes_the_same_objects_also_after_it_was_stored(lease: LeaseSpec, made: Objects) -> None:
    again = LeaseSpec.from_json(lease.canonical_json())
    assert again == lease
    assert again.content_hash() == lease.content_hash()
    assert json.dumps(lease_objects(again)) == json.dumps(made)


def no_secret_of_a_tenant_is_left_when_it_is_sealed(lease: LeaseSpec, made: Objects) -> None:
    canary = "c4n4ry-of-a-variable"
    services = tuple(
        service.model_copy(
            update={
                "environment": tuple(
                    variable.model_copy(update={"value": type(variable.value)(canary)})
                    for variable in service.environment
                )
            }
        )
        for service in lease.services
    )
    sealed = [seal(item, lambda _: "") for item in lease_objects(lease.model_copy(update={"services": services}))]
    assert canary not in json.dumps(sealed)
    assert len(sealed) >= len([item for item in made if not item["metadata"]["name"].startswith("env-")])


LAWS = (
    no_lease_is_without_its_restrictions_while_policies_are_on,
    nothing_but_plain_text_reaches_labels_and_annotations,
    every_mount_has_its_volume_and_every_ephemeral_byte_is_asked_for,
    every_port_and_protocol_that_is_exposed_is_served,
    the_same_spec_makes_the_same_objects_also_after_it_was_stored,
    no_secret_of_a_tenant_is_left_when_it_is_sealed,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_every_lease_that_is_built_keeps_every_law(world: World) -> None:
    """One run for all: making a world costs more than looking at it."""
    try:
        lease = lease_of(world, LEASE)
        made = lease_objects(lease)
    except (SpecRefused, BuildError):
        return  # refused as a whole: nothing was built
    for law in LAWS:
        law(lease, made)
