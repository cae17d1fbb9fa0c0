"""Clusters that are not as a Go provider leaves them: each lease is judged by itself, and nothing else is touched."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from components.lease import lease_objects
from lease.ids import LeaseId, namespace_name
from provider.adoption.plan import State
from provider.adoption.survey import other_providers
from provider.cli.adopt import Adopted, adopt_all, chosen_leases, code_for, plan_document, plan_lines, refusal
from provider.errors import ClusterError
from provider.lifecycle.state import Phase
from provider.protocols.chain import LeaseState
from provider.protocols.cluster import SECRET
from provider.records.applied import APPLIED_LABEL
from tests.components.recorded import load
from tests.provider.adoption.go_cluster import GoWorld, objects_of
from tests.world.cluster import FakeCluster

NAME = "base-simple-v2.0"
Objects = list[dict[str, Any]]
Edit = Callable[[Objects], object]


def edited(edit: Edit, name: str = NAME) -> GoWorld:
    recording = load(name)
    objects = objects_of(recording)
    edit(objects)
    return GoWorld(recording, objects=objects)


def of(objects: Objects, kind: str) -> dict[str, Any]:
    return next(obj for obj in objects if obj["kind"] == kind)


def without(kind: str) -> Edit:
    return lambda objects: objects.remove(of(objects, kind))


def setting(kind: str, *path: str | int, to: object) -> Edit:
    def edit(objects: Objects) -> None:
        target: Any = of(objects, kind)
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = to

    return edit


def only_records(objects: Objects) -> None:
    objects[:] = [obj for obj in objects if obj["kind"] in ("Manifest", "ProviderHost", "ProviderLeasedIP")]


CONTAINER = ("spec", "template", "spec", "containers", 0)

CHANGES = {
    "scaled by hand": (setting("Deployment", "spec", "replicas", to=1), "replicas is 1, in the stored manifest 2"),
    "another image": (setting("Deployment", *CONTAINER, "image", to="nginx:2"), "image is nginx:2, in the stored"),
    "a variable more": (setting("Deployment", *CONTAINER, "env", to=[{"name": "X", "value": "top secret"}]), "env[X]"),
    "arguments": (setting("Deployment", *CONTAINER, "args", to=["--password=top secret"]), ".args differs"),
    "more memory": (
        setting("Deployment", *CONTAINER, "resources", "limits", "memory", to="1Gi"),
        "limits.memory is 1Gi, in the stored manifest 134217728",
    ),
    "no workload": (without("Deployment"), "Deployment web is missing"),
    "no service": (without("Service"), "Service web is missing"),
    "no policies": (without("NetworkPolicy"), "NetworkPolicy akash-deployment-restrictions is missing"),
    "no route": (without("Ingress"), "Ingress ahostname.com is missing"),
}


@pytest.mark.parametrize("case", CHANGES)
async def test_what_runs_and_is_not_the_stored_manifest_is_shown_and_needs_consent(case: str) -> None:
    edit, text = CHANGES[case]
    plan = await edited(edit).plan_of()
    assert plan.state is State.CHANGES
    assert text in "; ".join(plan.differences)
    assert "top secret" not in "; ".join(plan.differences)
    assert plan.record is not None
    assert plan.record.manifest_hash == ""  # so that Lessor applies the stored manifest


async def test_with_consent_the_stored_manifest_is_applied_at_the_start() -> None:
    world = edited(setting("Deployment", *CONTAINER, "image", to="nginx:2"))
    plan = await world.plan_of()
    await adopt_all([plan], world.cluster, records="lease", import_stack=world.import_stack)
    assert (await world.converge(world.lease)).phase is Phase.RUNNING
    assert world.image(world.lease) == "nginx"


BROKEN = {
    "no manifest object": (without("Manifest"), "Manifest object of its namespace is missing"),
    "no group": (setting("Manifest", "spec", to={"lease_id": {}}), "cannot be read"),
    "a spec of text": (setting("Manifest", "spec", to="broken"), "cannot be read"),
    "no resources": (setting("Manifest", "spec", "group", "services", 0, "resources", to=None), "cannot be read"),
    "no services": (setting("Manifest", "spec", "group", "services", to=[]), "contains no services"),
    "another lease": (setting("Manifest", "spec", "lease_id", "dseq", to="7"), "would be named"),
    "no namespace": (only_records, "namespace is missing"),
    "no containers": (setting("Deployment", "spec", "template", to={}), "cannot be read"),
}


@pytest.mark.parametrize("case", BROKEN)
async def test_a_broken_lease_is_blocked_with_the_reason(case: str) -> None:
    edit, text = BROKEN[case]
    world = edited(edit)
    (plan,) = (each for each in (await world.plan()).leases if each.name == namespace_name(world.lease))
    assert plan.state is State.BLOCKED
    assert text in plan.reason


async def test_a_lease_whose_namespace_is_ending_is_blocked() -> None:
    world = GoWorld(load(NAME))
    world.cluster.remove(("v1", "Namespace", "", namespace_name(world.lease)))
    plan = await world.plan_of()
    assert (plan.state, plan.reason) == (State.BLOCKED, "its namespace is terminating")


async def test_a_service_that_waits_for_its_address_blocks_its_lease() -> None:
    def edit(objects: Objects) -> None:
        for obj in objects:
            obj.pop("status", None)

    plan = await edited(edit, "ip-endpoint-two-ports").plan_of()
    assert (plan.state, "waits for its address" in plan.reason) == (State.BLOCKED, True)


FOREIGN: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "miner", "labels": {"app": "miner"}},
    "spec": {"replicas": 1, "template": {"spec": {"containers": []}}},
}


async def test_foreign_objects_in_a_leases_namespace_are_noted_and_never_part_of_the_stack() -> None:
    world = GoWorld(load(NAME))
    space = namespace_name(world.lease)
    other = copy.deepcopy(FOREIGN)
    other["metadata"] |= {
        "name": "stray",
        "labels": {
            "akash.network": "true", "akash.network/lease.id.owner": "akash1other", "akash.network/lease.id.dseq": "7",
            "akash.network/lease.id.gseq": "1", "akash.network/lease.id.oseq": "1",
            "akash.network/lease.id.provider": world.lease.provider,
        },
    }  # fmt: skip
    for obj in (copy.deepcopy(FOREIGN), other):
        obj["metadata"]["namespace"] = space
        world.cluster.put(obj)
    plan = await world.adopt()
    assert [note.split(" is ")[0] for note in plan.notes] == ["Deployment miner", "Deployment stray"]
    assert plan.record is not None
    assert plan.record.spec is not None
    assert {obj["metadata"]["name"] for obj in lease_objects(plan.record.spec)}.isdisjoint({"miner", "stray"})


async def test_an_object_that_the_manifest_does_not_ask_for_goes_with_the_next_update() -> None:
    """The Go provider leaves policies and Secrets behind (recordings/objects README, point 6)."""
    world = GoWorld(load(NAME))
    stale = copy.deepcopy(of(objects_of(load(NAME)), "NetworkPolicy"))
    stale["metadata"]["name"] = "akash-apiserver-web"
    world.cluster.put(stale)
    plan = await world.adopt()
    assert plan.notes == ("NetworkPolicy akash-apiserver-web goes with the tenant's next update",)
    assert (await world.converge(world.lease)).phase is Phase.RUNNING
    assert world.cluster.writes and stale["metadata"]["name"] in {key[3] for key in world.cluster.objects}
    await world.reconciler.recreate(world.lease)
    await world.converge(world.lease)
    assert stale["metadata"]["name"] not in {key[3] for key in world.cluster.objects}


async def test_claims_that_are_not_of_the_manifest_are_changes_and_unreadable_ones_are_left_alone() -> None:
    def edit(objects: Objects) -> None:
        more, nameless = copy.deepcopy(of(objects, "ProviderHost")), copy.deepcopy(of(objects, "ProviderHost"))
        more["metadata"]["name"] = more["spec"]["hostname"] = "more.example.org"
        nameless["metadata"] = {"name": "nameless", "namespace": "lease"}
        objects += [more, nameless]

    world = edited(edit)
    plan = await world.plan_of()
    assert plan.differences == ("ProviderHost more.example.org is not of the stored manifest: Lessor deletes it",)
    assert (await world.plan()).unreadable == ("ProviderHost nameless",)


@pytest.mark.parametrize(
    ("state", "expected", "text"),
    [
        (LeaseState.CLOSED, State.ENDED, "the chain calls it closed"),
        (LeaseState.INSUFFICIENT_FUNDS, State.ENDED, "insufficient funds"),
        (LeaseState.RECLAIMING, State.READY, ""),
        (None, State.UNKNOWN, "does not have this lease"),
    ],
)
async def test_the_chain_says_which_leases_may_be_adopted(state: LeaseState | None, expected: State, text: str) -> None:
    world = GoWorld(load(NAME))
    if state is None:
        world.chain.lease_states.clear()
    else:
        world.chain.put_lease(world.lease, state)
    plan = await world.plan_of()
    assert (plan.state, text in plan.reason) == (expected, True)


async def test_a_living_lease_without_a_manifest_is_reported() -> None:
    world = GoWorld(load(NAME))
    missing = LeaseId(world.lease.owner, 77, 1, 1, world.lease.provider)
    world.chain.put_lease(missing, LeaseState.ACTIVE)
    plan = await world.plan()
    assert [(each.lease, each.state) for each in plan.leases if each.lease == missing] == [(missing, State.MISSING)]
    assert code_for(plan, Adopted(), chosen=()) == 1


async def test_leases_that_lessor_has_applied_are_not_adopted_again() -> None:
    world = GoWorld(load(NAME))
    await world.adopt()
    assert (await world.plan_of()).state is State.ADOPTED
    await world.reconciler.recreate(world.lease)
    await world.converge(world.lease)
    assert (await world.plan_of()).state is State.MANAGED


def a_pod(name: str, image: str, phase: str = "Running") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "akash-services"},
        "spec": {"containers": [{"name": "one", "image": image}]},
        "status": {"phase": phase},
    }


async def test_pods_of_a_go_provider_and_its_operators_are_found_by_their_image() -> None:
    cluster = FakeCluster("akash-services")
    for name, image, phase in (
        ("akash-provider-0", "ghcr.io/akash-network/provider:0.16.2", "Running"),
        ("operator-hostname", "mirror.example.com:5000/akash-network/provider@sha256:aa", "Pending"),
        ("operator-ip", "ghcr.io/akash-network/provider:0.16.2@sha256:aa", "Running"),
        ("ended", "ghcr.io/akash-network/provider:0.16.2", "Succeeded"),
        ("node", "ghcr.io/akash-network/node:1.0", "Running"),
        ("fake", "evil.example.com/provider:1", "Running"),
    ):
        cluster.put(a_pod(name, image, phase))
    found = await other_providers(cluster)
    assert [name.partition("/")[2] for name in found] == ["akash-provider-0", "operator-hostname", "operator-ip"]


async def test_nothing_is_adopted_while_another_provider_runs_unless_the_operator_says_so() -> None:
    world = GoWorld(load(NAME))
    world.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "akash-services"}})
    world.cluster.put(a_pod("akash-provider-0", "ghcr.io/akash-network/provider:0.16.2"))
    plan = await world.plan()
    assert "akash-services/akash-provider-0 run: stop the other provider" in refusal(plan, while_running=False)
    assert refusal(plan, while_running=True) == ""
    assert "runs in this cluster: pod akash-services/akash-provider-0" in "\n".join(plan_lines(plan))


async def test_leases_with_changes_are_left_out_unless_the_operator_takes_them() -> None:
    plan = await edited(setting("Deployment", "spec", "replicas", to=1)).plan()
    assert chosen_leases(plan, changes=False) == ()
    assert [each.state for each in chosen_leases(plan, changes=True)] == [State.CHANGES]
    assert code_for(plan, Adopted(), chosen=()) == 1
    assert code_for(plan, Adopted(("one",)), chosen=plan.leases) == 0


def many(world: GoWorld, count: int) -> list[LeaseId]:
    """More leases of the same kind, by other numbers."""
    recording, leases = load(NAME), []
    for number in range(count):
        lease = LeaseId(world.lease.owner, 1000 + number, 1, 1, world.lease.provider)
        leases.append(lease)
        world.chain.put_lease(lease, LeaseState.ACTIVE)
        for obj in objects_of(recording):
            text = repr(obj).replace(recording["namespace"], namespace_name(lease))
            text = text.replace(f"'{world.lease.dseq}'", f"'{lease.dseq}'").replace(
                f"'dseq': {world.lease.dseq}", f"'dseq': {lease.dseq}"
            )
            text = text.replace("ahostname.com", f"host-{number}.com")
            made: dict[str, Any] = eval(text)
            if made["kind"] in ("ProviderHost", "Ingress") and "ingress.example.com" in made["metadata"]["name"]:
                continue
            world.cluster.put(made)
    return leases


async def test_the_requests_for_a_plan_do_not_grow_with_the_leases() -> None:
    world = GoWorld(load(NAME))
    world.settings = world.settings.model_copy(update={"static_hosts": False})
    asked: Counter[str] = Counter()
    world.cluster.before = lambda operation, kind, name: asked.update([operation])
    await world.plan()
    one = dict(asked)
    many(world, 300)
    asked.clear()
    plan = await world.plan()
    assert dict(asked) == one
    assert Counter(each.state for each in plan.leases)[State.READY] == 300


class Killed(BaseException):
    """The process dies here."""


async def test_a_run_that_is_killed_between_any_two_writes_is_continued_by_the_next() -> None:
    writes = await _written_until(None)
    for number in range(writes + 1):
        assert await _written_until(number) > 0


async def _written_until(limit: int | None) -> int:
    """The number of writes of an adoption of two leases that dies at write `limit` and is repeated."""
    world, count = GoWorld(load("ip-endpoint-two-ports")), 0
    before = world.objects()

    def dies(operation: str, kind: str, name: str) -> None:
        nonlocal count
        if operation == "apply":
            count += 1
            if count == limit:
                raise Killed

    world.cluster.before = dies
    try:
        await world.adopt()
    except Killed:
        assert (await world.plan_of()).state is State.READY
        await world.adopt()
    assert (await world.plan_of()).state is State.ADOPTED
    world.restart()
    assert (await world.converge(world.lease)).phase is Phase.RUNNING
    for key, obj in before.items():
        kept = {name: value for name, value in world.cluster.objects[key].items() if key[1] != "ProviderLeasedIP"}
        assert not kept or kept == obj
    return count


async def test_the_failure_of_one_lease_does_not_stop_the_others() -> None:
    world = GoWorld(load(NAME))
    world.settings = world.settings.model_copy(update={"static_hosts": False})
    leases = many(world, 5)
    broken = namespace_name(leases[2])

    def fails(operation: str, kind: str, name: str) -> None:
        if operation == "apply" and name == f"applied-{broken}":
            raise ClusterError("https://fake", "quota exceeded", status=403)

    world.cluster.before = fails
    plan = await world.plan()
    chosen = [each for each in plan.leases if each.state is State.READY]
    adopted = await adopt_all(chosen, world.cluster, records="lease", import_stack=world.import_stack)
    assert (len(adopted.done), [name for name, _ in adopted.failed]) == (4, [broken])
    assert code_for(plan, adopted, chosen=chosen) == 2
    assert len(await world.cluster.list(SECRET, namespace="lease", labels=APPLIED_LABEL)) == 4


async def test_a_definition_without_a_status_stops_the_lease_and_names_the_remedy() -> None:
    """The Go provider's definitions have no status: the API server drops it, or answers 404."""
    world = GoWorld(load("ip-endpoint-two-ports"))
    plan = await world.plan_of()

    class Older(FakeCluster):
        async def apply(self, obj: Any, *, status: bool = False, dry_run: bool = False) -> dict[str, Any]:
            return await super().apply({key: value for key, value in obj.items() if key != "status"}, dry_run=True)

    adopted = await adopt_all([plan], Older(), records="lease", import_stack=world.import_stack)
    assert adopted.done == ()
    assert "pulumi up" in adopted.failed[0][1]


async def test_the_plan_is_printed_with_every_difference_and_what_is_added() -> None:
    world = edited(setting("Deployment", "spec", "replicas", to=1))
    plan = await world.plan()
    text = "\n".join(plan_lines(plan))
    assert "change: Deployment web: replicas is 1, in the stored manifest 2" in text
    assert "added to the cluster: 1 Secrets `applied-…`; nothing else is changed or removed" in text
    assert "no pod of another provider runs in this cluster" in text
    (document,) = plan_document(plan)["leases"]
    assert (document["state"], len(document["changes"])) == ("changes", 2)
