"""What the recordings hold beside a lease's own objects: claims, volumes that controllers made, the halves and the
refusals of updates, and the life of one lease.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from components.changes import Op, compare, refusals
from components.lease import lease_objects
from lease.manifest_decode import manifest_from_json
from provider.claims.hostnames import host_object
from provider.claims.leased_ips import leased_ip_object, wanted_addresses
from tests.components.recorded import ELSEWHERE, differences, load, names, writes
from tests.components.recorded_specs import recorded_spec, recorded_update
from tests.components.test_recorded import ROWS, row_of

NAMESPACE = "lease"
UPDATED_AT = "akash.network/lease.updated_at"


def taken(recording: dict[str, Any]) -> bool:
    return bool(recording["manifest_put"]["status"] == 200)


def posted(recording: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """This lease's objects of one kind as the provider created them, by name, without the time it wrote on them; other
    groups of the deployment are in the same log.
    """
    bodies = [item["body"] for item in recording["api_requests"] if item["method"] == "POST"]
    mine = [body for body in bodies if body["kind"] == kind and gseq(body) == str(recording["lease"]["gseq"])]
    found = {body["metadata"]["name"]: body for body in mine}
    return {name: body | {"metadata": untimed(body["metadata"])} for name, body in found.items()}


def gseq(claim: dict[str, Any]) -> str:
    return str(claim["metadata"]["labels"]["akash.network/lease.id.gseq"])


def untimed(metadata: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in metadata.get("annotations", {}).items() if key != UPDATED_AT}
    rest = {key: value for key, value in metadata.items() if key not in ("annotations", "namespace")}
    return rest | ({"annotations": kept} if kept else {})


def claimed(made: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {item["metadata"]["name"]: item | {"metadata": untimed(item["metadata"])} for item in made}


@pytest.mark.parametrize("name", names())
def test_every_claim_of_a_hostname_is_the_recorded_one(name):
    recording = load(name)
    if taken(recording):
        spec = recorded_spec(recording)
        ours = [host_object(spec.lease, host, namespace=NAMESPACE) for host in spec.hostnames]
        assert claimed(ours) == posted(recording, "ProviderHost")


@pytest.mark.parametrize("name", names())
def test_every_claim_of_an_address_is_the_recorded_one(name):
    recording = load(name)
    if taken(recording):
        spec = recorded_spec(recording)
        manifest = manifest_from_json(json.dumps(recording["manifest"]))
        group = next(group for group in manifest if group.name == recording["group"])
        ours = [leased_ip_object(claim, namespace=NAMESPACE) for claim in wanted_addresses(spec.lease, group)]
        assert claimed(ours) == posted(recording, "ProviderLeasedIP")


@pytest.mark.parametrize("name", names())
def test_every_volume_that_a_controller_made_comes_from_a_template_of_ours(name):
    recording = load(name)
    claims = recording.get("derived", {}).get("persistent_volume_claims") or []
    if not claims:
        return
    ours = {
        f"{template['metadata']['name']}-{made['metadata']['name']}-{ordinal}": template["spec"]
        for made in lease_objects(recorded_spec(recording))
        if made["kind"] == "StatefulSet"
        for template in made["spec"]["volumeClaimTemplates"]
        for ordinal in range(made["spec"]["replicas"])
    }
    for claim in claims:
        template = ours[claim["name"]]
        assert claim["spec"]["accessModes"] == template["accessModes"]
        assert claim["spec"]["resources"] == template["resources"]
        if "storageClassName" in template:
            assert claim["spec"]["storageClassName"] == template["storageClassName"]
    assert {claim["name"] for claim in claims} == set(ours)


@pytest.mark.parametrize("name", names(".update"))
def test_every_difference_before_a_recorded_update_is_documented(name):
    """Live objects of the first version against ours: what the server added does not count."""
    recording = load(name)
    live = [item for item in recording["before"]["objects"] if item["kind"] not in ELSEWHERE]
    found = differences(live, list(lease_objects(recorded_update(recording)[0])))
    counted = (item for item in found if item.path == "" or item.ours is not None)
    assert [item for item in counted if row_of(item, ROWS) is None] == []


def test_a_renamed_service_changes_nothing_there_and_is_a_new_one_beside_its_end_here():
    """The Go provider answers 200 and then fails in the background; a service with volumes is refused here, too."""
    recording = load("service-renamed.update")
    assert recording["after"]["manifest_put"]["status"] == 200
    assert recording["objects_added"] == recording["objects_removed"] == []
    before, after = recorded_update(recording)
    changes = compare(lease_objects(before), lease_objects(after))
    workloads = [(item.op, item.name) for item in changes if item.kind == "Deployment"]
    assert workloads == [(Op.CREATE, "c"), (Op.DELETE, "b")]
    assert refusals(changes) == ()


def test_the_life_of_a_recorded_lease_has_our_objects_at_every_step():
    recording = load("lifecycle.requests")
    first, *later = recording["steps"]
    manifest = manifest_from_json(json.dumps(recording["manifest"]))
    told = {
        "lease": recording["lease"],
        "settings": recording["settings"],
        "manifest": recording["manifest"],
        "group": manifest[0].name,
        "manifest_resource_version": first["manifest_resource_version"],
    }
    ours = list(lease_objects(recorded_spec(told)))
    created = [item for item in first["api_requests"] if item["method"] == "POST"]
    theirs = writes({"api_requests": [item for item in created if "body" in item]})
    assert [item for item in differences(theirs, ours) if row_of(item, ROWS) is None] == []
    versions = {step["manifest_resource_version"] for step in later[:-1]}
    assert versions == {first["manifest_resource_version"]}
    only_ours = {"IPAddressPool", "L2Advertisement", "ResourceQuota", "LimitRange"}
    named = {f"{item['kind']}/{item['metadata']['name']}" for item in ours if item["kind"] not in only_ours}
    for step in (first, *later[:-1]):
        assert {item for item in step["objects_left"] if item.split("/")[0] not in ELSEWHERE} == named
