"""Who owns the fields of an object that another provider made."""

from __future__ import annotations

from typing import Any

from provider.kube.field_owners import taken_fields

LABEL = "akash.network"


def entry(manager: str, operation: str, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
        "fieldsV1": fields, **more,
    }  # fmt: skip


WRITER = {
    "f:metadata": {"f:labels": {".": {}, f"f:{LABEL}": {}}},
    "f:spec": {"f:replicas": {}, "f:template": {"f:x": {}}},
}


def test_the_writer_of_the_labels_gives_its_fields_to_the_manager() -> None:
    (taken,) = taken_fields([entry("provider-services", "Update", WRITER)], manager="lessor", label=LABEL) or [{}]
    assert (taken["manager"], taken["operation"], taken["fieldsV1"]) == ("lessor", "Apply", WRITER)


def test_fields_that_the_manager_had_already_are_joined_with_them() -> None:
    own = entry("lessor", "Apply", {"f:spec": {"f:paused": {}, "f:template": {"f:y": {}}}})
    (taken,) = taken_fields([own, entry("go", "Update", WRITER)], manager="lessor", label=LABEL) or [{}]
    spec = taken["fieldsV1"]["f:spec"]
    assert spec == {"f:paused": {}, "f:replicas": {}, "f:template": {"f:x": {}, "f:y": {}}}


def test_a_status_and_the_fields_of_others_stay_with_their_owners() -> None:
    status = entry("kube-controller-manager", "Update", {"f:status": {"f:replicas": {}}}, subresource="status")
    scaled = entry("kubectl-scale", "Update", {"f:spec": {"f:replicas": {}}})
    taken = taken_fields([status, scaled, entry("go", "Update", WRITER)], manager="lessor", label=LABEL) or []
    assert [each["manager"] for each in taken] == ["kube-controller-manager", "kubectl-scale", "lessor"]


def test_without_such_a_writer_there_is_nothing_to_take() -> None:
    own = entry("lessor", "Apply", WRITER)
    assert taken_fields([own], manager="lessor", label=LABEL) is None
    assert taken_fields([], manager="lessor", label=LABEL) is None
