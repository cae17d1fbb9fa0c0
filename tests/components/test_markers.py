"""No text of a tenant reaches Pulumi as one of its markers: it is kept in a Secret, or refused before the answer."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pulumi.runtime import rpc

from components.errors import BuildError
from components.lease import lease_objects
from lease.errors import ManifestRefused
from lease.manifest import Group, Params, StorageMount
from lease.markers import MARKERS, first_marker
from lease.resources import Attribute, Volume
from lease.spec import LeaseSpec
from lease.validation import check_new_manifest
from tests.components.specs import LEASE, environment, everything, service, spec
from tests.components.test_registration import named, plain, registrations
from tests.lease.manifests import SERVICE, with_expose, with_resources

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
CLASS = (Attribute("class", UNKNOWN), Attribute("persistent", "true"))
REFUSED = {
    "name": replace(SERVICE, name="dd056dcd-154b-4c76-9bd3-c8f88648b5ff"),
    "image": replace(SERVICE, image=UNKNOWN),
    "command": replace(SERVICE, command=("sh", UNKNOWN)),
    "args": replace(SERVICE, args=(UNKNOWN,)),
    "name of a variable": replace(SERVICE, env=("d0e6a833031e9bbcd3f4e8bde6ca49a4=1",)),
    "hostname": with_expose(hosts=(UNKNOWN,)),
    "volume": replace(with_resources(storage=(Volume(UNKNOWN, 1, ()),)), params=Params((StorageMount(UNKNOWN, "/d"),))),
    "storage class": with_resources(storage=(Volume("data", 2**30, CLASS),)),
}


def texts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every text inside plain JSON."""
    match value:
        case str():
            yield path
        case dict():
            for name, item in value.items():
                yield from texts(item, (*path, name))
        case list():
            for index, item in enumerate(value):
                yield from texts(item, (*path, index))


def replaced(document: Any, path: tuple[Any, ...], text: str) -> LeaseSpec:
    copy = json.loads(json.dumps(document))
    place = copy
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = text
    return LeaseSpec.from_json(json.dumps(copy))


def test_every_marker_of_the_sdk_is_known():
    source = Path(rpc.__file__).read_text()
    fixed = re.findall(r'^[_A-Za-z]+ = "([0-9a-f]{32}|[0-9a-f-]{36})"$', source, re.MULTILINE)
    assert len(fixed) == 7
    assert set(fixed) < MARKERS


@pytest.mark.parametrize("marker", sorted(MARKERS))
def test_no_text_of_a_spec_can_become_a_marker(marker):
    document, built = json.loads(everything().canonical_json()), 0
    for path in texts(document):
        try:
            objects = lease_objects(replaced(document, path, marker))
        except ValueError:
            continue
        built += 1
        assert first_marker(list(objects)) == "", path
    assert built


@pytest.mark.parametrize("wanted", REFUSED.values(), ids=REFUSED.keys())
def test_a_marker_outside_of_a_variables_value_is_refused_before_the_answer(wanted):
    with pytest.raises(ManifestRefused, match="has a meaning of its own to Pulumi"):
        check_new_manifest(Group("dc", (wanted,)), owner=LEASE.owner)


def test_a_text_that_only_contains_a_marker_is_taken():
    wanted = replace(SERVICE, args=(f"--id={UNKNOWN}",), env=(f"ID={UNKNOWN}",))
    check_new_manifest(Group("dc", (wanted,)), owner=LEASE.owner)


@pytest.mark.parametrize("marker", sorted(MARKERS))
def test_a_variable_may_hold_a_marker_and_refers_to_a_secret(marker):
    pod, secret = (
        next(item for item in lease_objects(spec(service(environment=environment(("ID", marker))))) if wanted(item))
        for wanted in (lambda item: item["kind"] == "Deployment", lambda item: item["metadata"]["name"] == "env-web")
    )
    variable = pod["spec"]["template"]["spec"]["containers"][0]["env"][0]
    assert variable["valueFrom"] == {"secretKeyRef": {"name": "env-web", "key": "variable-0"}}
    assert base64.b64decode(secret["data"]["variable-0"]) == marker.encode()


def test_pulumi_gets_the_value_of_such_a_variable_as_it_is():
    requests = registrations(spec(service(environment=environment(("ID", UNKNOWN)))))
    data = plain(named(requests, "Secret")["object"]["data"])
    assert base64.b64decode(data["variable-0"]) == UNKNOWN.encode()


def test_a_builders_refusal_names_the_object_and_the_marker():
    with pytest.raises(BuildError, match=rf"a text of Deployment web: '{UNKNOWN}'"):
        lease_objects(spec(service(args=(UNKNOWN,))))
