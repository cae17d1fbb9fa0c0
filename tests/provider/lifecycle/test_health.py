"""Why a lease does not run, from what pods, workloads and events say; told to the operator and to the tenant."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lease.ids import namespace_name
from provider.lifecycle.health.pods import Trouble, pod_trouble
from provider.lifecycle.health.workloads import check_health
from provider.lifecycle.state import LeaseStatus, Phase, tenant_text
from provider.lifecycle.watches import Watcher
from provider.protocols.cluster import DEPLOYMENT, POD, WatchEvent
from tests.provider.lifecycle.world import World, a_group, a_lease

pytestmark = pytest.mark.virtual_time

L = a_lease()


def a_pod(status: dict[str, Any], *, name: str = "web-1", **meta: Any) -> dict[str, Any]:
    labels = {"akash.network": "true", "akash.network/manifest-service": "web"}
    metadata = {"name": name, "namespace": namespace_name(L), "labels": labels, **meta}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}


def container(**state: Any) -> dict[str, Any]:
    last = state.pop("last", {})
    restarts = state.pop("restarts", 0)
    return {
        "phase": "Running" if "running" in state else "Pending",
        "containerStatuses": [{"state": state, "lastState": last, "restartCount": restarts}],
    }


def waiting(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    return container(waiting={"reason": reason, "message": message}, **more)


def unscheduled(message: str) -> dict[str, Any]:
    return {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": message}]}


OUT_OF_MEMORY = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
NO_PROGRAM = {
    "terminated": {"reason": "StartError", "exitCode": 128, "message": 'exec: "x": executable file not found in $PATH'}
}
TROUBLES = [
    (
        unscheduled("0/2 nodes are available: 2 Insufficient nvidia.com/gpu. preemption: 0/2 nodes are available"),
        Trouble.UNSCHEDULABLE,
        "pod web-1 unschedulable: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu.",
        False,
    ),
    (
        waiting("ImagePullBackOff", 'Back-off pulling image "r.example/x:1": 401 Unauthorized'),
        Trouble.IMAGE,
        'pod web-1 image cannot be pulled: ImagePullBackOff: Back-off pulling image "r.example/x:1": 401 Unauthorized',
        True,
    ),
    (waiting("ErrImagePull", "dial tcp: i/o timeout"), Trouble.IMAGE, "i/o timeout", False),
    (waiting("ErrImagePull", "toomanyrequests: You have reached your pull rate limit"), Trouble.IMAGE, "limit", False),
    (waiting("ErrImagePull", "unexpected status code 503 Service Unavailable"), Trouble.IMAGE, "503", False),
    (waiting("ErrImagePull", "server misbehaving"), Trouble.IMAGE, "server misbehaving", False),
    (waiting("ErrImagePull", "x509: certificate has expired"), Trouble.IMAGE, "x509", False),
    (waiting("ErrImagePull", "something new"), Trouble.IMAGE, "something new", False),
    (waiting("InvalidImageName", "couldn't parse image name"), Trouble.IMAGE, "InvalidImageName", True),
    (waiting("ErrImagePull", "no match for platform in manifest: not found"), Trouble.IMAGE, "no match", True),
    (waiting("CreateContainerConfigError", 'secret "x" not found'), Trouble.CONFIG, "secret", False),
    (
        waiting("RunContainerError", "nvidia-container-cli: load library failed: no such file or directory"),
        Trouble.CONFIG,
        "nvidia-container-cli",
        False,
    ),
    (waiting("CreateContainerError", "something new"), Trouble.CONFIG, "something new", False),
    (
        waiting("CrashLoopBackOff", restarts=4, last={"terminated": {"exitCode": 3}}),
        Trouble.CRASH,
        "pod web-1 crash loop: exit code 3, restarted 4 times",
        True,
    ),
    (
        waiting("CrashLoopBackOff", restarts=2, last=OUT_OF_MEMORY),
        Trouble.MEMORY,
        "pod web-1 out of memory: restarted 2 times",
        True,
    ),
    (
        waiting("CrashLoopBackOff", restarts=2, last=NO_PROGRAM),
        Trouble.CONFIG,
        'pod web-1 cannot be started: exec: "x": executable file not found in $PATH',
        True,
    ),
    (container(terminated=OUT_OF_MEMORY["terminated"]), Trouble.MEMORY, "out of memory", True),
    (container(terminated={"exitCode": 1}), Trouble.EXIT, "ended: exit code 1", True),
    (container(terminated={"exitCode": 1}, restarts=1), Trouble.CRASH, "crash loop: exit code 1, restarted 1 ti", True),
    (container(terminated={"reason": "Unknown", "exitCode": 255}), Trouble.NODE, "container was lost when the", False),
    (waiting("CreateContainerError", "mkdir /x: no space left on device"), Trouble.CONFIG, "no space left", False),
    (waiting("ErrImagePull", "write /x: no space left on device"), Trouble.IMAGE, "no space left", False),
    (waiting("CreateContainerConfigError", "no such user"), Trouble.CONFIG, "no such user", True),
    (waiting("ContainerCreating"), Trouble.CREATING, "pod web-1 being created", False),
    (container(running={}), Trouble.NOT_READY, "pod web-1 not ready", True),
    ({"phase": "Failed", "reason": "Evicted", "message": "disk pressure"}, Trouble.EVICTED, "disk pressure", False),
    (
        {"phase": "Failed", "reason": "NodeAffinity", "message": "Predicate NodeAffinity failed"},
        Trouble.REJECTED,
        "pod web-1 ended by its node: NodeAffinity: Predicate NodeAffinity failed",
        False,
    ),
    (
        {
            **container(terminated={"exitCode": 137}),
            "phase": "Failed",
            "reason": "Terminated",
            "message": "node shutdown",
        },
        Trouble.REJECTED,
        "pod web-1 ended by its node: Terminated: node shutdown",
        False,
    ),
    ({**container(terminated={"exitCode": 1}), "phase": "Failed"}, Trouble.REJECTED, "ended by its node", False),
    ({"phase": "Unknown", "reason": "NodeLost", "message": "node n1"}, Trouble.NODE, "node n1", False),
    ({}, Trouble.CREATING, "being created", False),
]


@pytest.mark.parametrize(("status", "kind", "text", "of_the_tenant"), TROUBLES)
def test_what_ails_a_pod_is_one_line_and_says_whose_doing_it_is(
    status: dict[str, Any], kind: Trouble, text: str, of_the_tenant: bool
) -> None:
    trouble = pod_trouble(a_pod(status))
    assert trouble is not None
    assert trouble.kind is kind and text in trouble.text and trouble.of_the_tenant is of_the_tenant
    assert "\n" not in trouble.text and len(trouble.text) <= 240


def test_a_pod_whose_node_has_gone_silent_is_not_the_applications_doing() -> None:
    """What the node controller writes into the pods of a node that no longer reports: Ready, and nothing else."""
    ready = [{"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "False"}]
    pod = a_pod({**container(running={}), "conditions": ready}) | {"spec": {"nodeName": "n1"}}
    trouble = pod_trouble(pod)
    assert trouble is not None and trouble.text == "pod web-1 node lost: node n1 does not report"
    assert not trouble.of_the_tenant
    gated = pod_trouble(pod | {"spec": {"nodeName": "n1", "readinessGates": [{"conditionType": "x"}]}})
    assert gated is not None and gated.kind is Trouble.NOT_READY


def test_a_ready_pod_and_one_that_has_ended_well_have_no_trouble() -> None:
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert pod_trouble(a_pod(ready)) is None
    assert pod_trouble(a_pod({"phase": "Succeeded"})) is None
    leaving = pod_trouble(a_pod(ready, deletionTimestamp="2026-01-01T00:00:00Z"))
    assert leaving is not None and leaving.kind is Trouble.TERMINATING


def test_a_message_without_end_is_cut_and_put_on_one_line() -> None:
    trouble = pod_trouble(a_pod(waiting("ErrImagePull", "x\n" * 10_000 + "401 Unauthorized")))
    assert trouble is not None and len(trouble.text) == 240 and "\n" not in trouble.text
    assert trouble.text.startswith("pod web-1 image cannot be pulled: ErrImagePull: x x")
    assert trouble.text.endswith("x x 401 Unauthorized"), "the cause comes last"


async def running_with(*pods: dict[str, Any], workload: dict[str, Any], generation: int = 1) -> World:
    """A lease that ran, whose workload now has this status."""
    world = World()
    spec = await world.run(L, a_group())
    for pod in pods:
        world.cluster.put(pod)
    live = world.cluster.workload(spec.namespace, spec.services[0])
    assert live is not None
    changed = copy.deepcopy(live)
    live["metadata"]["generation"] = generation
    world.cluster.put({**changed, "status": workload}, status=True)
    live = world.cluster.workload(spec.namespace, spec.services[0])
    assert live is not None
    live["metadata"]["generation"] = generation
    return world


async def test_a_degraded_lease_says_why() -> None:
    pod = a_pod(waiting("CrashLoopBackOff", restarts=4, last={"terminated": {"exitCode": 3}}))
    world = await running_with(pod, workload={"observedGeneration": 1})
    outcome = await world.check(L)
    assert outcome.phase is Phase.DEGRADED and outcome.of_the_tenant
    assert outcome.reason == "service web: 0 of 1 ready; pod web-1 crash loop: exit code 3, restarted 4 times"
    assert outcome.again_in is None, "watches tell when it changes"


async def test_an_update_says_what_it_waits_for() -> None:
    pod = a_pod(unscheduled("0/1 nodes are available: 1 Insufficient nvidia.com/gpu."))
    world = await running_with(
        pod, workload={"observedGeneration": 2, "replicas": 1, "availableReplicas": 1}, generation=2
    )
    outcome = await world.check(L)
    told = "service web: 0 of 1 pods updated; pod web-1 unschedulable: 0/1 nodes are available: 1 Insufficient"
    assert outcome.phase is Phase.APPLYING and outcome.reason.startswith(told)
    assert tenant_text(world.reconciler.statuses[L]) == f"update under way: {outcome.reason}"


REJECTED = {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}
CRASHING = waiting("CrashLoopBackOff", restarts=4, last={"terminated": {"exitCode": 3}})


@pytest.mark.parametrize("ended", [REJECTED, {"phase": "Failed", "reason": "Terminated"}, {"phase": "Failed"}])
async def test_a_pod_that_its_node_has_ended_does_not_count_beside_its_successor(ended: dict[str, Any]) -> None:
    """After a reboot or a shutdown in order such pods stay; the successor alone says how the application is."""
    world = await running_with(a_pod(ended, name="web-0"), a_pod(CRASHING), workload={"observedGeneration": 1})
    outcome = await world.check(L)
    assert outcome.of_the_tenant
    assert outcome.reason == "service web: 0 of 1 ready; pod web-1 crash loop: exit code 3, restarted 4 times"


async def test_a_pod_that_its_node_has_ended_explains_while_it_is_the_only_one() -> None:
    world = await running_with(a_pod(REJECTED), workload={"observedGeneration": 1})
    outcome = await world.check(L)
    assert not outcome.of_the_tenant and "pod web-1 ended by its node: OutOfcpu: Node didn't" in outcome.reason
    assert outcome.again_in == 10.0, "its successor is still to be made, and no watch tells why it is not"


def a_node(name: str, ready: str, **condition: str) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready, **condition}]
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"conditions": conditions}}


NODES = [
    (a_node("n1", "Unknown", lastTransitionTime="2026-01-01T00:00:00Z"), "does not report since 2026-01-01T00:00:00Z"),
    (a_node("n1", "False", message="container runtime is down"), "is not ready: container runtime is down"),
    (a_node("n2", "True"), "is gone"),
]


@pytest.mark.parametrize(("node", "text"), NODES)
@pytest.mark.parametrize("status", [CRASHING, container(running={}), container(terminated={"exitCode": 1})])
async def test_a_pod_on_a_dead_node_is_the_nodes_trouble_whatever_the_pod_reported_last(
    node: dict[str, Any], text: str, status: dict[str, Any]
) -> None:
    """The pod keeps its last state; without the node's, a tenant would lose the lease for the node's failure."""
    world = await running_with(a_pod(status) | {"spec": {"nodeName": "n1"}}, workload={"observedGeneration": 1})
    world.cluster.put(node)
    outcome = await world.check(L)
    assert outcome.phase is Phase.DEGRADED and not outcome.of_the_tenant
    assert outcome.reason == f"service web: 0 of 1 ready; pod web-1 node lost: node n1 {text}"


async def test_a_lease_that_waits_for_a_node_says_so_to_the_operators_status_and_one_of_a_crash_does_not() -> None:
    world = await running_with(a_pod(CRASHING) | {"spec": {"nodeName": "n1"}}, workload={"observedGeneration": 1})
    world.cluster.put(a_node("n1", "Unknown"))
    await world.check(L)
    assert world.reconciler.statuses[L].of_the_provider
    world.cluster.put(a_node("n1", "True"), status=True)
    await world.check(L)
    assert not world.reconciler.statuses[L].of_the_provider


@pytest.mark.parametrize(("cause", "of_the_tenant"), [("manifest unknown", True), ("503 Service Unavailable", False)])
async def test_the_cause_of_a_pause_between_two_pulls_is_read_from_the_event_that_names_it(
    cause: str, of_the_tenant: bool
) -> None:
    """A kubelet before 1.33 names the image alone in the state of a waiting container."""
    pod = a_pod(waiting("ImagePullBackOff", 'Back-off pulling image "nginx:9"'))
    world = await running_with(pod, workload={"observedGeneration": 1})
    made = world.cluster.find(POD, "web-1", namespace_name(L))
    assert made is not None
    made["metadata"]["uid"] = "u1"
    before = await world.check(L)
    assert not before.of_the_tenant, "an unknown cause is the provider's"
    said = (f"Failed to pull image: {cause}", "Error: ErrImagePull", "Error: ImagePullBackOff")
    for second, message in enumerate(said):
        at = f"2026-01-01T00:00:0{second}Z"
        world.cluster.put(a_warning(f"e{second}", message, reason="Failed", lastTimestamp=at))
    outcome = await world.check(L)
    assert cause in outcome.reason and outcome.of_the_tenant is of_the_tenant
    assert outcome.again_in is None, "another state of the pod is told by its watch"


async def test_a_pod_that_waits_for_its_volume_says_what_the_storage_says() -> None:
    """The scheduler knows that the claim is not bound; why not is in the events of the claim alone."""
    pod = a_pod(unscheduled("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."), name="web-0")
    world = await running_with(pod, workload={"observedGeneration": 1})
    before = await world.check(L)
    assert before.again_in == 10.0, "no watch tells of events"
    for number, claim in enumerate(("data-web-0", "data-other-0")):
        event = a_warning(f"e{number}", f"pool {claim} is full", reason="ProvisioningFailed")
        event["involvedObject"] = {"kind": "PersistentVolumeClaim", "name": claim, "uid": claim}
        world.cluster.put(event)
    outcome = await world.check(L)
    assert "volume claim data-web-0: ProvisioningFailed: pool data-web-0 is full" in outcome.reason
    assert "data-other-0" not in outcome.reason and not outcome.of_the_tenant


async def test_a_pod_on_a_healthy_node_is_the_applications_trouble() -> None:
    world = await running_with(a_pod(CRASHING) | {"spec": {"nodeName": "n1"}}, workload={"observedGeneration": 1})
    world.cluster.put(a_node("n1", "True"))
    assert (await world.check(L)).of_the_tenant


async def test_while_its_node_is_silent_no_time_counts_against_a_lease() -> None:
    world = World(unstable_after_s=90)
    await world.run(L, a_group())
    world.cluster.put(a_pod(CRASHING) | {"spec": {"nodeName": "n1"}})
    world.cluster.put(a_node("n1", "Unknown"))
    live = world.cluster.find(DEPLOYMENT, "web", namespace_name(L))
    assert live is not None
    world.cluster.make_ready(live, 0)
    for _ in range(20):
        await world.check(L)
        await world.elapse(30)
    assert world.chain.sent == []


async def test_a_lease_with_a_volume_on_a_dead_node_says_what_it_waits_for() -> None:
    world = World()
    spec = await world.run(L, a_group(volume_bytes=10**9))
    leaving = a_pod(container(running={}), name="web-0", deletionTimestamp="2026-01-01T00:05:00Z")
    world.cluster.put(leaving | {"spec": {"nodeName": "n1"}})
    world.cluster.put(a_node("n1", "Unknown"))
    live = world.cluster.workload(spec.namespace, spec.services[0])
    assert live is not None
    world.cluster.make_ready(live, 0)
    assert (await world.check(L)).reason == (
        "service web: 0 of 1 ready; pod web-0 node lost: node n1 does not report; its volume is there, and the pod "
        "starts when the node returns or is deleted"
    )


async def test_pods_that_a_stateful_set_cannot_make_are_explained_by_its_own_event() -> None:
    """A webhook, pod security or a quota refuses them: no pod and no condition says so."""
    world = World()
    spec = await world.run(L, a_group(volume_bytes=10**9))
    live = world.cluster.workload(spec.namespace, spec.services[0])
    assert live is not None
    world.cluster.make_ready(live, 0)
    message = 'create Pod web-0 in StatefulSet web failed error: pods "web-0" is forbidden: violates PodSecurity'
    event = a_warning("e0", message, reason="FailedCreate", uid=live["metadata"]["uid"])
    event["involvedObject"]["kind"] = "StatefulSet"
    older = a_warning("e1", "of an older one", reason="FailedCreate", uid="u0")
    for each in (event, older):
        world.cluster.put(each)
    outcome = await world.check(L)
    assert outcome.reason == f"service web: 0 of 1 ready; FailedCreate: {message}"
    assert not outcome.of_the_tenant and outcome.again_in == 10.0


async def crash(world: World, *, up_s: float, down_s: float) -> list[Phase]:
    """One round of a crash loop: ready for a time, then not. Returns the phases that are shown."""
    live = world.cluster.find(DEPLOYMENT, "web", namespace_name(L))
    assert live is not None
    if world.cluster.find(POD, "web-1", namespace_name(L)):
        world.cluster.remove(("v1", "Pod", namespace_name(L), "web-1"))
    world.cluster.make_ready(live)
    up = (await world.check(L)).phase
    await world.elapse(up_s)
    world.cluster.put(a_pod(CRASHING))
    world.cluster.make_ready(live, 0)
    down = (await world.check(L)).phase
    await world.elapse(down_s)
    return [up, down]


async def test_a_crash_loop_does_not_change_the_state_at_each_restart() -> None:
    world = World()
    await world.run(L, a_group())
    world.cluster.put(a_pod(CRASHING))
    phases = [phase for _ in range(6) for phase in await crash(world, up_s=20, down_s=40)]
    assert phases == [Phase.RUNNING, Phase.DEGRADED, Phase.RUNNING] + [Phase.DEGRADED] * 9
    live = world.cluster.find(DEPLOYMENT, "web", namespace_name(L))
    assert live is not None
    world.cluster.make_ready(live)
    world.cluster.remove(("v1", "Pod", namespace_name(L), "web-1"))
    outcome = await world.check(L)
    told = "the application has ended 6 times; it is ready again, and called running after 480 s"
    assert outcome.phase is Phase.DEGRADED and outcome.reason == told and outcome.again_in == 480
    await world.elapse(480)
    assert (await world.check(L)).phase is Phase.RUNNING
    await world.elapse(600)
    await world.check(L)
    assert await crash(world, up_s=20, down_s=40) == [Phase.RUNNING, Phase.DEGRADED]
    assert (await crash(world, up_s=20, down_s=40))[0] is Phase.RUNNING, "its past is forgotten after ten minutes"


async def test_another_version_is_not_judged_by_the_crashes_of_the_one_before() -> None:
    world = World()
    await world.run(L, a_group())
    world.cluster.put(a_pod(CRASHING))
    for _ in range(4):
        await crash(world, up_s=20, down_s=40)
    world.cluster.remove(("v1", "Pod", namespace_name(L), "web-1"))
    await world.send(L, a_group("nginx:2"))
    assert (await world.converge(L)).phase is Phase.RUNNING


async def test_the_time_of_a_crash_loop_is_kept_between_its_ends_and_only_its_ends_count() -> None:
    world = World(unstable_after_s=100)
    await world.run(L, a_group())
    world.cluster.put(a_pod(CRASHING))
    rounds = 0
    while not world.chain.sent and rounds < 20:
        await crash(world, up_s=30, down_s=0)
        await world.elapse(40)
        await world.check(L)
        rounds += 1
    assert 3 <= rounds <= 6, "100 s of not running, 40 s of each round, of which the first two are forgotten"


def a_warning(name: str, message: str, *, uid: str = "u1", reason: str = "FailedMount", **times: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace_name(L), "creationTimestamp": "2026-01-01T00:00:00Z"}
    about = {"kind": "Pod", "name": "web-1", "uid": uid}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "type": "Warning", "involvedObject": about}
    return {**event, "reason": reason, "message": message, **times}


async def reason_with(*warnings: dict[str, Any]) -> str:
    """What is said of a lease whose pod is being created while the cluster holds these events."""
    world = await running_with(a_pod(waiting("ContainerCreating")), workload={"observedGeneration": 1})
    pod = world.cluster.find(POD, "web-1", namespace_name(L))
    assert pod is not None
    pod["metadata"]["uid"] = "u1"
    for warning in warnings:
        world.cluster.put(warning)
    outcome = await world.check(L)
    assert not outcome.of_the_tenant and outcome.again_in == 10.0, "no watch tells of events"
    return outcome.reason


async def test_a_pod_that_never_starts_is_explained_by_its_last_warning() -> None:
    reason = await reason_with(
        a_warning("e0", 'MountVolume.SetUp failed for volume "x"', lastTimestamp="2026-01-02T00:00:00Z"),
        a_warning("e1", "first", lastTimestamp="2026-01-01T00:00:00Z"),
    )
    assert 'being created: FailedMount: MountVolume.SetUp failed for volume "x"' in reason


LAST = [
    {"lastTimestamp": None, "eventTime": "2026-01-03T00:00:00.000001Z"},
    {"eventTime": "2026-01-01T00:00:00.5Z", "series": {"count": 2, "lastObservedTime": "2026-01-03T00:00:00.1Z"}},
    {"metadata": {"name": "e0", "namespace": namespace_name(L), "creationTimestamp": "2026-01-03T00:00:00Z"}},
]


@pytest.mark.parametrize("times", LAST)
async def test_the_last_warning_is_found_whichever_way_an_event_tells_its_time(times: dict[str, Any]) -> None:
    earlier = a_warning("e1", "an earlier one", lastTimestamp="2026-01-02T00:00:00Z")
    reason = await reason_with(a_warning("e0", "the last one", **times), earlier)
    assert "FailedMount: the last one" in reason


async def test_a_pod_does_not_inherit_the_warnings_of_the_one_that_had_its_name() -> None:
    assert (await reason_with(a_warning("e0", "of another pod", uid="u0"))).endswith("pod web-1 being created")


async def test_a_pod_that_has_its_node_is_not_explained_by_the_schedulers_old_warning() -> None:
    old = a_warning("e0", "pod has unbound immediate PersistentVolumeClaims", reason="FailedScheduling")
    assert (await reason_with(old)).endswith("pod web-1 being created")


async def test_pods_that_cannot_even_be_made_are_explained_by_their_workload() -> None:
    condition = {"type": "ReplicaFailure", "status": "True", "message": "pods is forbidden: exceeded quota"}
    world = await running_with(workload={"observedGeneration": 1, "conditions": [condition]})
    assert (await world.check(L)).reason == "service web: 0 of 1 ready; pods is forbidden: exceeded quota"


@pytest.mark.parametrize(("kind", "status"), [("ReplicaFailure", "False"), ("Available", "True")])
async def test_a_condition_that_is_no_failure_explains_nothing(kind: str, status: str) -> None:
    condition = {"type": kind, "status": status, "message": "Deployment has minimum availability"}
    world = await running_with(workload={"observedGeneration": 1, "conditions": [condition]})
    assert (await world.check(L)).reason == "service web: 0 of 1 ready"


@pytest.mark.parametrize(
    ("status", "revision", "gone"),
    [
        (waiting("ImagePullBackOff", "not found"), "web-old", True),
        (waiting("CrashLoopBackOff", restarts=3), "web-old", True),
        (waiting("ImagePullBackOff", "not found"), "web-new", False),
        (container(running={}), "web-old", False),
        (unscheduled("no room"), "web-old", False),
    ],
)
async def test_a_broken_pod_of_an_older_version_is_not_waited_for(
    status: dict[str, Any], revision: str, *, gone: bool
) -> None:
    """A StatefulSet would wait for it for ever; what runs, or may still run, is left alone."""
    world = World()
    spec = await world.run(L, a_group(volume_bytes=10**9))
    pod = a_pod(status, name="web-0")
    pod["metadata"]["labels"]["controller-revision-hash"] = revision
    world.cluster.put(pod)
    live = world.cluster.workload(spec.namespace, spec.services[0])
    assert live is not None
    world.cluster.put({**live, "status": {"observedGeneration": 1, "updateRevision": "web-new"}}, status=True)
    await world.check(L)
    assert (world.cluster.find(POD, "web-0", spec.namespace) is None) is gone


async def test_a_healthy_lease_costs_one_list() -> None:
    world = World()
    spec = await world.run(L, a_group())
    asked: list[str] = []
    world.cluster.before = lambda operation, kind, name: asked.append(f"{operation} {kind}")
    assert (await check_health(world.cluster, spec)).unready == ()
    assert asked == ["list Deployment"]


async def test_a_workload_that_is_being_deleted_is_missing() -> None:
    world = World()
    spec = await world.run(L, a_group())
    live = world.cluster.workload(spec.namespace, spec.services[0])
    assert live is not None and (await check_health(world.cluster, spec)).missing == ()
    live["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert (await check_health(world.cluster, spec)).missing == ("web",)


async def test_only_another_kind_of_trouble_is_worth_a_check() -> None:
    looks = []
    world = World()
    watcher = Watcher(world.cluster, records="lease", check=lambda lease, after: looks.append(lease))
    watcher.know(L)
    crash = waiting("CrashLoopBackOff", restarts=1, last={"terminated": {"exitCode": 3}})
    again = waiting("CrashLoopBackOff", restarts=2, last={"terminated": {"exitCode": 3}})
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    counts = []
    for status in (waiting("ContainerCreating"), crash, ready, again, waiting("ImagePullBackOff")):
        watcher._handle(POD, WatchEvent("MODIFIED", a_pod(status, uid="u1")))
        counts.append(len(looks))
    assert counts == [1, 2, 2, 2, 3]


WORDS = [
    (Phase.RUNNING, "not as applied: x", 0, ""),
    (Phase.CLOSING, "x", 0, ""),
    (Phase.WAITING_FOR_MANIFEST, "x", 0, ""),
    (Phase.APPLYING, "applying the newest version", 0, ""),
    (Phase.APPLYING, "service web: 1 of 2 pods updated", 0, "update under way: service web: 1 of 2 pods updated"),
    (Phase.APPLYING, "service web: 0 of 1 ready; pod x", 0, "starting: service web: 0 of 1 ready; pod x"),
    (
        Phase.APPLYING, "https://10.0.0.1:6443: connection refused", 3,
        "applying: the provider has trouble of its own and tries again",
    ),
    (Phase.BLOCKED, 'host "a" in use', 0, 'blocked: host "a" in use'),
    (Phase.DEGRADED, "service web: 0 of 1 ready", 0, "degraded: service web: 0 of 1 ready"),
]  # fmt: skip


@pytest.mark.parametrize(("phase", "reason", "attempts", "told"), WORDS)
def test_a_tenant_reads_the_tenants_part_and_never_an_address_of_the_provider(
    phase: Phase, reason: str, attempts: int, told: str
) -> None:
    assert tenant_text(LeaseStatus(L, phase, reason, 0.0, attempts)) == told
    assert tenant_text(None) == ""
