"""Each known way out of a lease is refused by the mandatory rule that is named beside it (issue H, section 6)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.lease import lease_objects
from policies.judge import RULES, judge
from tests.components.specs import fenced

Objects = list[dict[str, Any]]


def lease() -> Objects:
    """The objects of a lease that uses everything, none of which breaks a rule."""
    return copy.deepcopy(list(lease_objects(fenced())))


def of_kind(made: Objects, kind: str) -> dict[str, Any]:
    return next(item for item in made if item["kind"] == kind)


def pod(made: Objects) -> dict[str, Any]:
    found: dict[str, Any] = of_kind(made, "Deployment")["spec"]["template"]["spec"]
    return found


def template(made: Objects) -> dict[str, Any]:
    found: dict[str, Any] = of_kind(made, "Deployment")["spec"]["template"]["metadata"]
    return found


def box(made: Objects) -> dict[str, Any]:
    found: dict[str, Any] = pod(made)["containers"][0]
    return found


def more(made: Objects, **fields: Any) -> None:
    space = of_kind(made, "Namespace")["metadata"]["name"]
    made.append({"metadata": {"name": "more", "namespace": space}} | fields)


def egress(made: Objects, rule: dict[str, Any]) -> None:
    of_kind(made, "NetworkPolicy")["spec"]["egress"].append(rule)


Mutation = Callable[[Objects], Any]
IN_A_POD: dict[str, tuple[str, Mutation]] = {
    "hostPath /": (
        "no-foreign-volume",
        lambda made: pod(made).update(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
    ),
    "a foreign Secret": (
        "no-foreign-volume",
        lambda made: pod(made).update(volumes=[{"name": "v", "secret": {"secretName": "x"}}]),
    ),
    "a projected token": (
        "no-foreign-volume",
        lambda made: pod(made).update(volumes=[{"name": "v", "projected": {"sources": []}}]),
    ),
    "hostNetwork": ("no-host-namespace", lambda made: pod(made).update(hostNetwork=True)),
    "hostPID": ("no-host-namespace", lambda made: pod(made).update(hostPID=True)),
    "hostIPC as text": ("no-host-namespace", lambda made: pod(made).update(hostIPC="true")),
    "privileged": ("no-privileged-container", lambda made: box(made)["securityContext"].update(privileged=True)),
    "added capability": (
        "no-added-capability",
        lambda made: box(made)["securityContext"].update(capabilities={"add": ["SYS_ADMIN"]}),
    ),
    "unmasked proc": ("masked-proc", lambda made: box(made)["securityContext"].update(procMount="Unmasked")),
    "setuid": (
        "no-privilege-escalation",
        lambda made: box(made)["securityContext"].pop("allowPrivilegeEscalation"),
    ),
    "unconfined container": (
        "no-profile-of-ones-own",
        lambda made: box(made)["securityContext"].update(seccompProfile={"type": "Unconfined"}),
    ),
    "a profile of the node": (
        "no-profile-of-ones-own",
        lambda made: pod(made)["securityContext"].update(seccompProfile={"type": "Localhost"}),
    ),
    "AppArmor by annotation": (
        "no-profile-of-ones-own",
        lambda made: template(made).update(
            annotations={"container.apparmor.security.beta.kubernetes.io/web": "unconfined"}
        ),
    ),
    "no seccomp": ("seccomp-profile", lambda made: pod(made)["securityContext"].pop("seccompProfile")),
    "SELinux": (
        "no-kernel-option",
        lambda made: pod(made)["securityContext"].update(seLinuxOptions={"type": "spc_t"}),
    ),
    "sysctl": (
        "no-kernel-option",
        lambda made: pod(made)["securityContext"].update(sysctls=[{"name": "kernel.msgmax", "value": "1"}]),
    ),
    "host process": (
        "no-kernel-option",
        lambda made: box(made)["securityContext"].update(windowsOptions={"hostProcess": True}),
    ),
    "hostPort": ("no-host-port", lambda made: box(made).update(ports=[{"containerPort": 1, "hostPort": 1}])),
    "node": ("no-chosen-node", lambda made: pod(made).update(nodeName="n1")),
    "tolerations": ("no-chosen-node", lambda made: pod(made).update(tolerations=[{"operator": "Exists"}])),
    "priority": ("no-chosen-node", lambda made: pod(made).update(priorityClassName="system-node-critical")),
    "no limits": ("cpu-and-memory-limits", lambda made: box(made)["resources"].pop("limits")),
    "no disk limit": (
        "ephemeral-storage-limit",
        lambda made: box(made)["resources"]["limits"].pop("ephemeral-storage"),
    ),
    "a foreign account": ("own-service-account", lambda made: pod(made).update(serviceAccountName="lessor")),
    "the default account's token": (
        "own-service-account",
        lambda made: pod(made).update(automountServiceAccountToken=True),
    ),
}
BESIDE_IT: dict[str, tuple[str, Mutation]] = {
    "kube-system": (
        "own-namespace",
        lambda made: of_kind(made, "Secret")["metadata"].update(namespace="kube-system"),
    ),
    "another lease": ("own-namespace", lambda made: of_kind(made, "Service")["metadata"].update(namespace="other")),
    "cluster-admin": (
        "no-cluster-rights",
        lambda made: of_kind(made, "RoleBinding").update(roleRef={"kind": "ClusterRole", "name": "cluster-admin"}),
    ),
    "another subject": (
        "no-cluster-rights",
        lambda made: of_kind(made, "RoleBinding").update(subjects=[{"kind": "Group", "name": "system:authenticated"}]),
    ),
    "all rights": (
        "no-cluster-rights",
        lambda made: of_kind(made, "Role").update(rules=[{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]),
    ),
    "secrets": (
        "no-cluster-rights",
        lambda made: of_kind(made, "Role").update(
            rules=[{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
        ),
    ),
    "ClusterRoleBinding": (
        "known-kinds",
        lambda made: more(made, kind="ClusterRoleBinding", roleRef={"name": "mine"}),
    ),
    "PodTemplate": ("known-kinds", lambda made: more(made, kind="PodTemplate", template={"spec": {}})),
    "DaemonSet": ("known-kinds", lambda made: more(made, kind="DaemonSet", spec={})),
    "server-snippet": (
        "known-edge-options",
        lambda made: of_kind(made, "Ingress")["metadata"]["annotations"].update(
            {"nginx.ingress.kubernetes.io/server-snippet": "return 200;"}
        ),
    ),
    "auth-url": (
        "known-edge-options",
        lambda made: of_kind(made, "Ingress")["metadata"]["annotations"].update(
            {"nginx.ingress.kubernetes.io/auth-url": "http://10.0.0.1"}
        ),
    ),
    "a second line": (
        "known-edge-options",
        lambda made: of_kind(made, "Ingress")["metadata"]["annotations"].update(
            {"nginx.ingress.kubernetes.io/proxy-body-size": "1;\nreturn 200"}
        ),
    ),
    "every host": ("known-edge-options", lambda made: of_kind(made, "Ingress")["spec"]["rules"][0].pop("host")),
    "default backend": (
        "known-edge-options",
        lambda made: of_kind(made, "Ingress")["spec"].update(defaultBackend={"a": 1}),
    ),
    "ExternalName": (
        "own-endpoints",
        lambda made: of_kind(made, "Service")["spec"].update(type="ExternalName", externalName="metadata.internal"),
    ),
    "externalIPs": ("own-endpoints", lambda made: of_kind(made, "Service")["spec"].update(externalIPs=["192.0.2.1"])),
    "no selector": ("own-endpoints", lambda made: of_kind(made, "Service")["spec"].pop("selector")),
    "egress to all": ("no-open-policy", lambda made: egress(made, {})),
    "egress to every peer": ("no-open-policy", lambda made: egress(made, {"to": [{}]})),
    "egress to every namespace": ("no-open-policy", lambda made: egress(made, {"to": [{"namespaceSelector": {}}]})),
    "egress to the node's network": (
        "no-open-policy",
        lambda made: egress(made, {"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}),
    ),
    "egress to the metadata service": (
        "no-open-policy",
        lambda made: egress(made, {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}]}),
    ),
    "egress by IPv6": ("no-open-policy", lambda made: egress(made, {"to": [{"ipBlock": {"cidr": "::/0"}}]})),
    "ingress from all": (
        "no-open-policy",
        lambda made: of_kind(made, "NetworkPolicy")["spec"]["ingress"].append({}),
    ),
    "no admission level": (
        "admission-level",
        lambda made: of_kind(made, "Namespace")["metadata"]["labels"].pop("pod-security.kubernetes.io/enforce"),
    ),
    "a privileged namespace": (
        "admission-level",
        lambda made: of_kind(made, "Namespace")["metadata"]["labels"].update(
            {"pod-security.kubernetes.io/enforce": "privileged"}
        ),
    ),
}
ESCAPES = IN_A_POD | BESIDE_IT


def broken(made: Objects) -> set[str]:
    return {found.rule for found in judge(made) if found.mandatory}


def test_the_lease_itself_breaks_no_rule() -> None:
    assert judge(lease()) == ()


@pytest.mark.parametrize("escape", ESCAPES)
def test_each_escape_breaks_its_mandatory_rule(escape: str) -> None:
    rule, mutate = ESCAPES[escape]
    made = lease()
    mutate(made)
    assert rule in broken(made)


def test_every_mandatory_rule_has_an_escape() -> None:
    assert {rule.id for rule in RULES} == {rule for rule, _ in ESCAPES.values()}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(sorted(ESCAPES)), min_size=1, max_size=4, unique=True))
def test_no_escape_hides_another(chosen: list[str]) -> None:
    """Mutations of one lease, several at once; one that cannot be made after another is left out."""
    made, rules = lease(), set()
    for escape in chosen:
        rule, mutate = ESCAPES[escape]
        before = copy.deepcopy(made)
        try:
            mutate(made)
        except (KeyError, StopIteration):
            made = before
            continue
        if set(_undone(before, made, broken)) or rule in broken(made):
            rules.add(rule)
    assert broken(made)
    assert rules


def _undone(before: Objects, after: Objects, found: Callable[[Objects], set[str]]) -> Iterator[str]:
    """Rules that the mutation before broke and that this one mended, by writing the same field."""
    yield from found(before) - found(after)
