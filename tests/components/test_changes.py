"""What a new version would do to the objects, told from the objects alone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.changes import Op, compare, refusals
from components.labels import Object
from components.lease import lease_objects
from lease.spec import ClusterFacts, IngressMode, LeaseSpec, RegistryCredentials, VolumeKind, VolumeSpec
from tests.components.specs import hostname, leased_ip, port, service, spec

EPHEMERAL = VolumeSpec(name="default", kind=VolumeKind.EPHEMERAL, size_bytes=1 << 29)


def volume(name: str = "data", *, size: int = 10**9, storage_class: str = "beta2", mount: str = "/data") -> VolumeSpec:
    return VolumeSpec(name=name, kind=VolumeKind.PERSISTENT, size_bytes=size, storage_class=storage_class, mount=mount)


def database(*volumes: VolumeSpec, **changes: Any) -> LeaseSpec:
    return spec(services=(service("db", volumes=(EPHEMERAL, *volumes), **changes),))


def reasons(old: LeaseSpec, new: LeaseSpec) -> list[str]:
    return [str(refusal) for refusal in refusals(compare(lease_objects(old), lease_objects(new)))]


def summary(old: LeaseSpec, new: LeaseSpec) -> list[str]:
    return [f"{change.op} {change.kind} {change.name}" for change in compare(lease_objects(old), lease_objects(new))]


def test_the_same_version_changes_nothing() -> None:
    old = database(volume())
    assert compare(lease_objects(old), lease_objects(old.model_copy(deep=True))) == ()


def test_another_image_is_an_update_in_place_of_one_path() -> None:
    old, new = spec(services=(service(),)), spec(services=(service(image="nginx:2"),))
    (change,) = compare(lease_objects(old), lease_objects(new))
    assert (change.op, change.kind, change.name) == (Op.UPDATE, "Deployment", "web")
    assert change.paths == ("spec.template.spec.containers[web].image",)
    assert str(change) == "update Deployment web (spec.template.spec.containers[web].image)"


def test_a_changed_secret_is_named_by_its_path_and_never_by_its_value() -> None:
    def with_password(text: str) -> LeaseSpec:
        credentials = RegistryCredentials(host="https://r.example", username="u", password=text, email="")
        return spec(services=(service(credentials=credentials),))

    changes = compare(lease_objects(with_password("hunter2")), lease_objects(with_password("hunter3")))
    assert [change.paths for change in changes] == [("data..dockerconfigjson",)]
    assert "hunter" not in repr(changes)


def test_a_service_more_and_a_service_less_are_creations_and_deletions() -> None:
    one = spec(services=(service(ports=(port(80, global_=True),)),))
    two = spec(services=(service(), service("worker", ports=())))
    assert "create Deployment worker" in summary(one, two)
    assert summary(two, one) == ["delete Deployment worker"]
    assert reasons(two, one) == []


LOSSES = [
    pytest.param(
        database(volume(size=10**9)), database(volume(size=2 * 10**9)), ["volume data of service db", "1G", "2G"],
        id="a larger volume",
    ),
    pytest.param(
        database(volume(size=2 * 10**9)), database(volume(size=10**9)), ["2G of class beta2", "1G of class beta2"],
        id="a smaller volume",
    ),
    pytest.param(
        database(volume(storage_class="beta2")), database(volume(storage_class="beta3")),
        ["class beta2", "class beta3"],
        id="another class",
    ),
    pytest.param(
        database(volume("data")), database(volume("files")), ["volume data of service db", "to none"],
        id="a renamed volume",
    ),
    pytest.param(
        database(volume("data"), volume("more", mount="/more")), database(volume("data")),
        ["volume more of service db", "to none"], id="a volume less",
    ),
    pytest.param(
        database(volume("data")), database(volume("data"), volume("more", mount="/more")),
        ["volume more of service db", "from none to 1G"], id="a volume more",
    ),
    pytest.param(
        database(volume()), database(),
        ["service db", "from a service with volumes db-data (1G", "to a service without volumes"],
        id="a StatefulSet that becomes a Deployment",
    ),
    pytest.param(
        database(volume()), spec(services=(service("base", volumes=(EPHEMERAL, volume())),)),
        ["service db", "removed", "renamed"], id="a renamed service with a volume",
    ),
    pytest.param(
        database(volume()), spec(services=(service("web"),)), ["service db", "to removed"],
        id="a removed service with a volume",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "told"), LOSSES)
def test_a_change_that_would_lose_data_is_refused_with_what_old_new_and_the_remedy(
    old: LeaseSpec, new: LeaseSpec, told: list[str]
) -> None:
    (reason,) = reasons(old, new)
    assert all(part in reason for part in told), reason
    assert "close this deployment and create another" in reason


def test_what_may_change_beside_a_volume_is_an_update_in_place() -> None:
    old = database(volume(mount="/data"))
    new = database(volume(mount="/srv"), image="postgres:17", command=("run",))
    assert summary(old, new) == ["update StatefulSet db"] and reasons(old, new) == []


def test_a_service_that_gets_its_first_volume_loses_nothing() -> None:
    """The Deployment goes, the StatefulSet comes: what it had was gone with its pod anyway."""
    changes = compare(lease_objects(database()), lease_objects(database(volume())))
    assert refusals(changes) == ()
    notes = {(change.op, change.kind): change.note for change in changes if change.note}
    assert notes == {
        (Op.CREATE, "StatefulSet"): "replaces Deployment db",
        (Op.DELETE, "Deployment"): "StatefulSet db replaces it",
    }


def test_another_mode_of_the_edge_replaces_every_route_and_loses_nothing() -> None:
    routes = ClusterFacts(ingress_mode=IngressMode.GATEWAY_API)
    old = spec(services=(service(),), hostnames=(hostname("a.example"),))
    changes = compare(lease_objects(old), lease_objects(old.model_copy(update={"cluster": routes})))
    edge = [str(change) for change in changes if change.name == "a.example"]
    assert edge == [
        "create HTTPRoute a.example: replaces Ingress a.example",
        "delete Ingress a.example: HTTPRoute a.example replaces it",
    ]
    assert refusals(changes) == ()


def test_a_leased_address_that_goes_takes_its_service_with_it() -> None:
    old = spec(services=(service(),), leased_ips=(leased_ip(),))
    new = spec(services=(service(),))
    assert {change.op for change in compare(lease_objects(old), lease_objects(new))} == {Op.DELETE}


def edited(kind: str, edit: Callable[[Object], object], old: LeaseSpec) -> tuple[list[Object], list[Object]]:
    """The objects of `old`, and the same with one kind edited: what another builder would make."""
    before = list(lease_objects(old))
    after = copy.deepcopy(before)
    for item in after:
        if item["kind"] == kind:
            edit(item)
    return before, after


FIXED = [
    ("Deployment", "spec.selector", lambda o: o["spec"]["selector"]["matchLabels"].update(extra="1")),
    ("Service", "spec.clusterIP", lambda o: o["spec"].update(clusterIP="None")),
    ("Service", "spec.loadBalancerClass", lambda o: o["spec"].update(loadBalancerClass="other")),
    ("Secret", "type", lambda o: o.update(type="Opaque")),
    ("RoleBinding", "roleRef", lambda o: o["roleRef"].update(name="other")),
]


@pytest.mark.parametrize(("kind", "field", "edit"), FIXED, ids=[f"{kind} {field}" for kind, field, _ in FIXED])
def test_what_is_fixed_but_holds_no_data_is_replaced(kind: str, field: str, edit: Callable[[Object], object]) -> None:
    credentials = RegistryCredentials(host="https://r.example", username="u", password="p", email="")
    old = spec(services=(service(credentials=credentials, permissions_read=("logs",)),))
    (change,) = compare(*edited(kind, edit, old))
    assert change.op is Op.REPLACE and change.note == f"{field} cannot be changed in place"
    assert change.refusal is None


@pytest.mark.parametrize(
    ("field", "edit"),
    [
        ("spec.selector", lambda o: o["spec"]["selector"]["matchLabels"].update(extra="1")),
        ("spec.serviceName", lambda o: o["spec"].update(serviceName="other")),
        ("spec.podManagementPolicy", lambda o: o["spec"].update(podManagementPolicy="Parallel")),
        ("spec.revisionHistoryLimit", lambda o: o["spec"].update(revisionHistoryLimit=3)),
    ],
)
def test_what_holds_volumes_is_not_made_again(field: str, edit: Callable[[Object], object]) -> None:
    (change,) = compare(*edited("StatefulSet", edit, database(volume())))
    assert change.op is Op.REPLACE and change.refusal is not None
    assert str(change.refusal).startswith(f"{field} of service db cannot change from ")


def test_a_service_type_changes_in_place_and_says_what_is_given_back() -> None:
    (change,) = compare(*edited("Service", lambda o: o["spec"].update(type="NodePort"), spec(services=(service(),))))
    assert change.op is Op.UPDATE and "ClusterIP becomes NodePort" in change.note


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_a_sealed_object_is_replaced_when_its_data_changes(kind: str) -> None:
    def sealed(value: str, *, immutable: bool = True) -> Object:
        meta = {"name": "x", "namespace": "n"}
        return {"apiVersion": "v1", "kind": kind, "metadata": meta, "immutable": immutable, "data": {"a": value}}

    (change,) = compare([sealed("1")], [sealed("2")])
    assert change.op is Op.REPLACE
    (change,) = compare([sealed("1", immutable=False)], [sealed("2", immutable=False)])
    assert change.op is Op.UPDATE


def test_the_namespace_is_never_removed_by_an_update() -> None:
    objects = lease_objects(spec(services=(service(),)))
    reasons = [str(refusal) for refusal in refusals(compare(objects, objects[1:]))]
    assert len(reasons) == 1 and "everything in it would be deleted" in reasons[0]


def test_a_claim_is_never_removed_nor_changed() -> None:
    claim = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "db-data-db-0", "namespace": "n"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1G"}}},
    }  # fmt: skip
    larger = copy.deepcopy(claim)
    larger["spec"]["resources"]["requests"]["storage"] = "2G"  # type: ignore[index]
    assert len(refusals(compare([claim], []))) == len(refusals(compare([claim], [larger]))) == 1


def test_volumes_of_a_live_object_differ_by_what_they_are_and_not_by_defaults() -> None:
    new = lease_objects(database(volume()))
    live = copy.deepcopy(list(new))
    for item in live:
        if item["kind"] == "StatefulSet":
            (template,) = item["spec"]["volumeClaimTemplates"]
            template |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}}
    old = [item for item in live if item["kind"] == "StatefulSet"]
    assert refusals(compare(old, new)) == ()


def test_items_in_another_order_are_a_change_of_the_list() -> None:
    def container(*names: str) -> Object:
        return {"kind": "X", "metadata": {"name": "x"}, "items": [{"name": name} for name in names]}

    (change,) = compare([container("a", "b")], [container("b", "a")])
    assert change.paths == ("items",)
    (change,) = compare([container("a", "b")], [container("a", "c")])
    assert change.paths == ("items[b]", "items[c]")


# no null: Kubernetes takes it for a field that is not said, and so does the comparison
VALUES = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(old=VALUES, new=VALUES)
def test_whatever_an_object_holds_a_difference_has_a_path_and_none_has_none(old: Any, new: Any) -> None:
    def holding(value: Any) -> Object:
        return {"kind": "Any", "metadata": {"name": "x"}, "held": value}

    changes = compare([holding(old)], [holding(new)])
    assert bool(changes) == (old != new)
    assert all(path.startswith("held") for change in changes for path in change.paths)


def test_an_update_needs_no_spare_card_volume_or_port() -> None:
    """The old pod goes before the new one comes (field problem D1): a lease has room for its replicas, not one more."""
    objects = lease_objects(spec(service("web", count=3), service("db", volumes=(EPHEMERAL, volume()))))
    deployment, stateful_set = (
        next(item for item in objects if item["kind"] == kind) for kind in ("Deployment", "StatefulSet")
    )
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}
    assert stateful_set["spec"]["updateStrategy"]["type"] == "RollingUpdate"
    for item in (deployment, stateful_set):
        assert all("hostPort" not in port for port in item["spec"]["template"]["spec"]["containers"][0]["ports"])
