"""A first version that is refused: nothing of it is applied, or nothing of it stays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from components.lease import namespace_object
from lease.ids import namespace_name
from lease.manifest import Group
from provider.errors import ClusterError
from provider.kube.labels import MANAGED
from provider.lifecycle.state import Phase, tenant_text
from provider.protocols.cluster import (
    DEPLOYMENT,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    PROVIDER_HOST,
    PROVIDER_LEASED_IP,
    SECRET,
    SERVICE,
    STATEFUL_SET,
)
from provider.records.applied import Applied, Attempt, applied_name, applied_object
from provider.records.manifests import ManifestRecord
from stacks.common.results import Operation
from tests.provider.lifecycle.world import World, a_group, a_lease
from tests.world.engine import Fault

pytestmark = pytest.mark.virtual_time

L = a_lease()
DENIED = 'admission webhook "policy" denied the request: image bad:1 is not signed'


def two_services(image: str) -> Group:
    first, second = a_group(hosts=["a.example.com"], ip="meow").services, a_group(image, name="other").services
    assert first is not None and second is not None
    return Group("west", (*first, *second))


def denies_image(image: str) -> Any:
    def admission(obj: Mapping[str, Any]) -> str:
        containers = (obj.get("spec") or {}).get("template", {}).get("spec", {}).get("containers", ())
        return DENIED if any(item["image"] == image for item in containers) else ""

    return admission


async def opened(world: World) -> None:
    """The namespace stands since the lease was won."""
    await world.win(L, two_services("bad:1"))
    record = ManifestRecord(L, two_services("bad:1"), {}, resource_version="0")
    world.cluster.put(namespace_object(world.parts.specs.unclaimed(record)))


def made(world: World) -> list[str]:
    """All that is made of the tenant's manifest."""
    namespace = namespace_name(L)
    kinds = (DEPLOYMENT, SERVICE)
    found = [f"{kind.kind} {name}" for kind in kinds for name in world.cluster.named(kind, namespace)]
    return found + world.cluster.named(PROVIDER_HOST) + world.cluster.named(PROVIDER_LEASED_IP) + world.pools()


async def test_what_the_api_server_refuses_in_a_dry_run_is_applied_nowhere() -> None:
    world = World()
    world.cluster.admission = denies_image("bad:1")
    await opened(world)
    outcome = await world.converge(L)
    assert (outcome.phase, outcome.reason) == (Phase.FAILED, f"Deployment other: {DENIED} (HTTP 422)")
    assert world.engine.calls == [] and made(world) == []
    assert "image bad:1 is not signed" in tenant_text(world.reconciler.statuses[L])
    runs = len(world.cluster.dry_runs)
    world.restart()
    assert (await world.converge(L)).reason == outcome.reason
    assert len(world.cluster.dry_runs) == runs, "the same manifest is not asked about again"
    await world.send(L, two_services("good:1"))
    assert (await world.converge(L)).phase is Phase.RUNNING
    assert world.engine.calls == [(Operation.UP, namespace_name(L))]


async def test_the_same_manifest_sent_again_is_tried_again() -> None:
    world = World()
    world.cluster.admission = denies_image("bad:1")
    await opened(world)
    await world.converge(L)
    world.cluster.admission = lambda obj: ""
    world.reconciler.manifest_sent(L)
    assert (await world.converge(L)).phase is Phase.RUNNING


async def test_an_update_that_the_api_server_would_refuse_rolls_nothing() -> None:
    world = World()
    await world.run(L, two_services("good:1"))
    calls = list(world.engine.calls)
    world.cluster.admission = denies_image("bad:1")
    await world.send(L, two_services("bad:1"))
    outcome = await world.converge(L)
    assert outcome.phase is Phase.UPDATE_FAILED and DENIED in outcome.reason
    assert world.engine.calls == calls


async def test_a_refusal_that_quotes_a_whole_object_is_recorded_without_its_middle() -> None:
    """The record of the attempt is in a Secret, which holds a megabyte."""
    world = World()
    await world.run(L, two_services("good:1"))
    denied = denies_image("bad:1")
    long = f"{DENIED} {'x' * 2**21} says the policy"
    world.cluster.admission = lambda obj: denied(obj) and long
    await world.send(L, two_services("bad:1"))
    outcome = await world.converge(L)
    attempt = world.applied(L).attempt
    assert attempt is not None and attempt.error == outcome.reason and len(outcome.reason) == 4096
    assert outcome.reason.startswith("Deployment other: admission webhook") and "says the policy" in outcome.reason


def refuses_pods(why: str) -> Any:
    return lambda obj: why if obj["kind"] == "Pod" else ""


async def test_an_update_whose_pods_would_be_refused_ends_no_pod() -> None:
    """The Deployment is taken, and ends the pods of the version before; its own are never made."""
    world = World()
    await world.run(L, two_services("good:1"))
    calls = list(world.engine.calls)
    world.cluster.admission = refuses_pods(DENIED)
    await world.send(L, two_services("bad:1"))
    outcome = await world.converge(L)
    assert outcome.phase is Phase.UPDATE_FAILED and outcome.reason.startswith(f"Pod web-dry-run: {DENIED}")
    assert world.engine.calls == calls


async def test_pods_that_the_clusters_pod_security_refuses_hold_an_update_and_are_not_the_tenants_doing() -> None:
    world = World()
    await world.run(L, two_services("good:1"))
    calls = list(world.engine.calls)
    world.cluster.admission = refuses_pods('pods "web" is forbidden: violates PodSecurity "restricted:latest": x')
    await world.send(L, two_services("better:1"))
    outcome = await world.check(L)
    assert outcome.retry and "violates PodSecurity" in outcome.reason and world.engine.calls == calls
    assert "PodSecurity" not in tenant_text(world.reconciler.statuses[L])
    world.cluster.admission = lambda obj: ""
    assert (await world.converge(L)).phase is Phase.RUNNING


@pytest.mark.parametrize(("first", "phase"), [(True, Phase.FAILED), (False, Phase.RUNNING)])
async def test_a_quota_refuses_the_pods_of_a_first_version_only(*, first: bool, phase: Phase) -> None:
    """Later the pods of the version before have their part of it."""
    world = World()
    if not first:
        await world.run(L, two_services("good:1"))
    world.cluster.admission = refuses_pods('pods "web" is forbidden: exceeded quota: team, requested: pods=1')
    await (opened(world) if first else world.send(L, two_services("better:1")))
    assert (await world.converge(L)).phase is phase


@pytest.mark.parametrize("answer", ['Pod "web" is invalid: x', "error looking up service account x: not found"])
async def test_what_else_is_said_of_a_pod_in_a_dry_run_refuses_nothing(answer: str) -> None:
    world = World()
    world.cluster.admission = refuses_pods(answer)
    await opened(world)
    assert (await world.converge(L)).phase is Phase.RUNNING


@pytest.mark.parametrize("answer", ['is forbidden: User "x" cannot patch', "does not support dry run", "no idea"])
async def test_a_dry_run_that_says_nothing_of_the_tenants_objects_refuses_nothing(answer: str) -> None:
    world = World()
    world.cluster.admission = lambda obj: answer if obj["kind"] == "Deployment" else ""
    await opened(world)
    assert (await world.converge(L)).phase is Phase.RUNNING


async def test_an_api_server_that_does_not_answer_a_dry_run_is_asked_again() -> None:
    world = World()
    await opened(world)

    def away(operation: str, kind: str, name: str) -> None:
        if operation == "apply" and kind == "Deployment":
            raise ClusterError("fake", "no answer")

    world.cluster.before = away
    outcome = await world.check(L)
    assert outcome.again_in is not None and world.engine.calls == []
    world.cluster.before = lambda *_: None
    assert (await world.converge(L)).phase is Phase.RUNNING


@pytest.mark.parametrize("stands", [True, False])
async def test_a_first_version_that_fails_half_way_is_undone(*, stands: bool) -> None:
    world = World()
    world.engine.faults.append(Fault(error="Deployment other is invalid: no", objects=6))
    await (opened(world) if stands else world.win(L, two_services("bad:1")))
    half = await world.check(L)
    assert half.phase is Phase.FAILED and made(world) != []
    outcome = await world.converge(L)
    assert (outcome.phase, outcome.reason) == (Phase.FAILED, half.reason)
    assert made(world) == [] and world.cluster.find(NAMESPACE, namespace_name(L)) is not None
    calls = len(world.engine.calls)
    world.restart()
    assert (await world.converge(L)).reason == half.reason and len(world.engine.calls) == calls
    await world.send(L, two_services("good:1"))
    assert (await world.converge(L)).phase is Phase.RUNNING


async def test_the_volume_claims_of_a_first_version_that_is_undone_stay() -> None:
    """The volume of one may be what an operator has restored for this lease."""
    world = World()
    world.engine.faults.append(Fault(error="StatefulSet web is invalid: no", objects=6))
    await world.win(L, a_group(volume_bytes=1 << 30))
    await world.check(L)
    meta = {"name": "web-data-web-0", "namespace": namespace_name(L), "labels": MANAGED}
    claim = world.cluster.put({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta})
    assert (await world.converge(L)).phase is Phase.FAILED
    assert world.cluster.named(STATEFUL_SET, namespace_name(L)) == []
    assert world.cluster.named(PERSISTENT_VOLUME_CLAIM, namespace_name(L)) == [claim["metadata"]["name"]]


async def test_an_undoing_that_fails_is_tried_again_also_after_a_crash() -> None:
    world = World()
    failed, away = Fault(error="Deployment other is invalid: no", objects=6), Fault(error="connection refused")
    world.engine.faults.extend([failed, away])
    await opened(world)
    await world.check(L)
    outcome = await world.check(L)
    assert outcome.retry and "cannot be removed: connection refused" in outcome.reason
    text = "failed: Deployment other is invalid: no; the provider has trouble of its own and tries again"
    assert tenant_text(world.reconciler.statuses[L]) == text
    world.restart()
    assert (await world.converge(L)).phase is Phase.FAILED
    assert made(world) == []


async def test_with_the_record_lost_what_runs_stays_when_a_version_is_refused() -> None:
    world = World()
    await world.run(L, two_services("good:1"))
    world.cluster.remove(("v1", SECRET.kind, "lease", applied_name(L)))
    world.engine.lose_state()
    world.engine.refused["bad:1"] = "is invalid: no"
    await world.send(L, two_services("bad:1"))
    assert (await world.converge(L)).phase is Phase.FAILED
    assert "Deployment web" in made(world) and "a.example.com" in made(world)


async def test_a_first_version_whose_end_was_not_recorded_stays_when_the_next_one_is_refused() -> None:
    """The provider ended between the engine's end and its record, or the record could not be written."""
    world = World()
    await world.run(L, two_services("good:1"))
    spec = world.applied(L).spec
    assert spec is not None
    unfinished = Applied(attempt=Attempt(spec.content_hash()), fresh=True)
    world.cluster.put(applied_object(L, unfinished, namespace="lease"))
    world.restart()
    world.engine.refused["bad:1"] = "is invalid: no"
    await world.send(L, two_services("bad:1"))
    assert (await world.converge(L)).phase is Phase.FAILED
    assert "Deployment web" in made(world) and "a.example.com" in made(world)


async def test_a_record_of_before_is_never_undone() -> None:
    """An older version wrote it; what runs there is not known."""
    world = World()
    world.engine.faults.append(Fault(error="Deployment other is invalid: no", objects=6))
    await opened(world)
    await world.check(L)
    applied = world.applied(L)
    world.cluster.put(applied_object(L, replace(applied, fresh=False), namespace="lease"))
    before = made(world)
    await world.converge(L)
    assert before and set(before) <= set(made(world))
