"""The version label of the pods: what makes pods anew is a change of the pods (docs/differences.md,
`version-of-the-pods`).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from components.lease import lease_objects
from lease.build import SpecSettings, lease_spec
from lease.ids import LeaseId
from lease.manifest import Credentials, Expose, Group, Params, Permissions, Service
from lease.resources import Resources, Volume
from lease.spec import ClusterFacts, LeaseSpec

LEASE = LeaseId("akash1owner", 42, 1, 1, "akash1prov")
WEB = Service(
    "web",
    "nginx:1",
    Resources(1, 1000, 2**30, (Volume("default", 2**30),)),
    1,
    expose=(Expose(80, 8080, global_=True), Expose(53, 53, proto="UDP")),
    credentials=Credentials("registry.example.com", "", "me", "first"),
    params=Params(None, None, Permissions(("logs",))),
)


def built(service: Service, *, version: str, previous: LeaseSpec | None = None) -> LeaseSpec:
    return lease_spec(
        lease=LEASE,
        group=Group("dc", (service,)),
        resource_version=version,
        placements={},
        addresses={},
        cluster=ClusterFacts(),
        settings=SpecSettings(),
        previous=previous,
    )


def template(spec: LeaseSpec) -> Any:
    (workload,) = (item for item in lease_objects(spec) if item["kind"] == "Deployment")
    return workload["spec"]["template"]


@pytest.mark.parametrize(
    ("change", "anew"),
    [
        ({"credentials": Credentials("registry.example.com", "", "me", "second")}, False),
        ({"count": 2}, False),
        ({"expose": (Expose(80, 9090, global_=True), Expose(53, 53, proto="UDP"))}, False),
        ({"expose": (Expose(80, 8080), Expose(53, 53, proto="UDP"))}, False),
        ({"expose": (Expose(80, 8080, global_=True), Expose(53, 53, proto="TCP"))}, False),
        ({"params": Params(None, None, Permissions(("logs", "events")))}, False),
        ({"expose": (Expose(81, 8080, global_=True), Expose(53, 53, proto="UDP"))}, True),
        ({"credentials": None}, True),
        ({"params": None}, True),
        ({"image": "nginx:2"}, True),
        ({"env": ("A=1",)}, True),
        ({"env": ("A=\x7f",)}, True),
        ({"args": ("a",)}, True),
        ({"resources": replace(WEB.resources, cpu_milli=2000)}, True),
    ],
)
def test_pods_are_made_anew_only_for_what_they_show(change: dict[str, Any], *, anew: bool) -> None:
    first = built(WEB, version="10")
    second = built(replace(WEB, **change), version="20", previous=first)
    assert (json.dumps(template(second)) != json.dumps(template(first))) is anew
    assert second.content_hash() != first.content_hash()
    third = built(replace(WEB, **change), version="30", previous=second)
    assert third == second


def test_the_value_in_a_variables_secret_makes_the_pods_anew_that_read_it() -> None:
    first = built(replace(WEB, env=("A=\x7f",)), version="10")
    second = built(replace(WEB, env=("A=\x80",)), version="20", previous=first)
    assert template(second) != template(first)


def test_pods_keep_their_version_over_several_updates_that_are_not_theirs() -> None:
    spec = built(WEB, version="10")
    for number in range(2, 5):
        spec = built(replace(WEB, count=number), version=f"{number}0", previous=spec)
    (service,) = spec.services
    assert (service.resource_version, service.rollout_version) == ("40", "10")
    changed = built(replace(WEB, count=4, image="nginx:2"), version="50", previous=spec)
    assert changed.services[0].rollout_version == "50"


def test_what_ran_before_keeps_its_old_replica_sets_and_a_new_service_keeps_one() -> None:
    first = built(WEB, version="10")
    older = first.model_copy(
        update={"services": tuple(service.model_copy(update={"old_replica_sets": 0}) for service in first.services)}
    )
    assert "old_replica_sets" not in older.canonical_json()
    limits = [
        item["spec"]["revisionHistoryLimit"]
        for spec in (first, older, built(replace(WEB, image="nginx:2"), version="20", previous=older))
        for item in lease_objects(spec)
        if item["kind"] == "Deployment"
    ]
    assert limits == [1, 10, 10]
