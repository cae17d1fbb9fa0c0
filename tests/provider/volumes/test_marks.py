"""The marks on a volume: what they say survives any history, and nobody's nonsense deletes data."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lease.ids import LeaseId
from provider.kube.labels import managed_labels
from provider.volumes.marks import UNTIL, expired, held, let_go, read_kept, rebound, utc
from provider.volumes.quarantine import Step, next_step
from provider.volumes.texts import volume_document
from tests.provider.lifecycle.world import PROVIDER, a_lease

L, N = a_lease(1), a_lease(2)
NOW = 1_790_000_000.0


def a_volume(policy: str = "Delete", phase: str = "Bound", **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pv-1", "resourceVersion": "7", **meta},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "storageClassName": "beta2",
            "persistentVolumeReclaimPolicy": policy,
            "claimRef": {"namespace": "ns", "name": "web-data-web-0", "uid": "u-1", "resourceVersion": "5"},
        },
        "status": {"phase": phase},
    }


@pytest.mark.parametrize("policy", ["Delete", "Retain", "Recycle"])
@pytest.mark.parametrize("meta", [{}, {"labels": {"a": "b"}, "annotations": {"c": "d"}}])
def test_a_volume_that_is_let_go_is_as_it_was_before(policy: str, meta: dict[str, Any]) -> None:
    volume = a_volume(policy, **meta)
    again = held(held(volume, L, until=NOW, asked_bytes=5), N, until=NOW + 1)
    free = let_go(again)
    assert free["spec"] == volume["spec"]
    assert free["metadata"] == {"labels": {}, "annotations": {}} | volume["metadata"]


def test_what_is_written_is_the_version_that_was_read_and_the_read_object_is_not_touched() -> None:
    volume = a_volume()
    kept = held(volume, L, until=NOW)
    assert kept["metadata"]["resourceVersion"] == "7"
    assert volume == a_volume()
    before = held(volume, L, until=NOW)
    rebound(kept, N, namespace="new", claim="web-data-web-0", until=NOW)
    expired(kept)
    assert kept == before


def test_a_volume_that_waits_names_its_claim_without_a_uid_and_an_expired_one_has_its_old_claim_again() -> None:
    kept = held(a_volume(), L, until=NOW)
    waits = rebound(kept, N, namespace="new", claim="web-data-web-0", until=NOW + 9)
    reference = waits["spec"]["claimRef"]
    assert (reference["namespace"], reference["name"]) == ("new", "web-data-web-0")
    assert (reference["uid"], reference["resourceVersion"]) == ("", "")
    assert waits["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    for waiting in (waits, held(waits, N, until=NOW + 9)):  # its new lease may have ended before the claim was made
        over = expired(waiting)
        assert over["spec"]["claimRef"]["uid"] == "u-1"
        assert over["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
        assert UNTIL in over["metadata"]["labels"]


@given(st.floats(min_value=0, max_value=4_000_000_000))
def test_what_the_label_says_is_never_before_the_time(seconds: float) -> None:
    kept = read_kept(held(a_volume(), L, until=seconds))
    assert kept is not None
    assert seconds <= kept.until <= seconds + 1


@pytest.mark.parametrize(
    ("phase", "into", "policy", "early", "late"),
    [
        ("Released", None, "Retain", Step.NOTHING, Step.EXPIRE),
        ("Failed", None, "Retain", Step.NOTHING, Step.EXPIRE),
        ("Available", N, "Retain", Step.NOTHING, Step.EXPIRE),
        ("Released", None, "Delete", Step.NOTHING, Step.NOTHING),
        ("Failed", None, "Delete", Step.NOTHING, Step.NOTHING),
        ("Bound", None, "Retain", Step.NOTHING, Step.LET_GO),
        ("Bound", N, "Retain", Step.LET_GO, Step.LET_GO),
        ("Bound", N, "Delete", Step.LET_GO, Step.LET_GO),
    ],
)
def test_the_one_next_step(phase: str, into: LeaseId | None, policy: str, early: Step, late: Step) -> None:
    volume = held(a_volume(), L, until=NOW)
    if into is not None:
        volume["metadata"]["annotations"]["akash.network/quarantine.into"] = str(into)
    volume["spec"]["persistentVolumeReclaimPolicy"] = policy
    volume["status"]["phase"] = phase
    kept = read_kept(volume)
    assert kept is not None
    assert (next_step(kept, now=NOW - 1), next_step(kept, now=NOW)) == (early, late)


@pytest.mark.parametrize(
    "text", ["", "tomorrow", "20261128T064431", "2026-11-28T06:44:31Z", "99999999T999999Z", "20261128T064431Z ", "0"]
)
def test_a_time_that_cannot_be_read_never_comes(text: str) -> None:
    volume = a_volume(labels=managed_labels(L) | {UNTIL: text}, phase="Released")
    kept = read_kept(volume)
    assert kept is not None and math.isinf(kept.until)
    assert next_step(kept, now=1e12) is Step.NOTHING
    assert volume_document(kept)["until"] is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(JSON, JSON, JSON, JSON)
def test_whatever_somebody_writes_on_a_volume_is_read_or_refused_as_promised(
    spec: Any, status: Any, notes: Any, reference: Any
) -> None:
    meta = {"name": "pv-1", "labels": managed_labels(L) | {UNTIL: utc(NOW)}, "annotations": notes}
    for body in (spec, {"claimRef": reference, "capacity": spec}):
        try:
            kept = read_kept({"metadata": meta, "spec": body, "status": status})
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
        assert kept is not None and kept.lease == L
        volume_document(kept)


@pytest.mark.parametrize(
    "into", ["", "a", "a/1/1/1", f"a/x/1/1/{PROVIDER}", "a/1/1/1/b/c", "a/-1/1/1/b", "a/1/1/\u0661/b"]
)
def test_a_target_that_is_no_lease_is_none(into: str) -> None:
    volume = held(a_volume(phase="Released"), L, until=NOW)
    volume["metadata"]["annotations"]["akash.network/quarantine.into"] = into
    kept = read_kept(volume)
    assert kept is not None and kept.into is None
