"""Isolation: a pod's ways out of its containers. The rules refuse what the level `baseline` of the API server's Pod
Security refuses, and more.

Lessor builds none of these. The rules hold when a builder, a stored record or a person's program is wrong. A value of
another form than Kubernetes knows counts as the dangerous one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from policies.pods import all_containers, at, items, listed, named, pod_metadata, pod_of
from policies.rules import BOTH, Domain, Manifest, ObjectProblem, Objects, RuleScope, fence, of_each

__all__ = ["RULES"]

_VOLUMES = frozenset({"name", "emptyDir", "persistentVolumeClaim"})
_OWN_VOLUMES = _VOLUMES | {"configMap", "secret", "projected"}
"""Of the provider's own pods, in the cluster stack."""
_HOST = ("hostNetwork", "hostPID", "hostIPC")
_PROFILES = ("RuntimeDefault",)
_SAFE_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_syncookies",
    }
)


_POD_FIELDS = frozenset(
    {
        "affinity",
        "automountServiceAccountToken",
        "containers",
        "hostUsers",
        "imagePullSecrets",
        "runtimeClassName",
        "securityContext",
        "serviceAccountName",
        "volumes",
    }
)
_CONTAINER_FIELDS = frozenset(
    {
        "args",
        "command",
        "env",
        "image",
        "imagePullPolicy",
        "name",
        "ports",
        "resources",
        "securityContext",
        "volumeMounts",
    }
)
_POD_CONTEXT = frozenset({"runAsNonRoot", "seccompProfile", "sysctls"})
_CONTAINER_CONTEXT = frozenset({"privileged", "runAsNonRoot", "allowPrivilegeEscalation", "capabilities"})
_SOURCES = frozenset({"secretKeyRef", "fieldRef", "resourceFieldRef"})
"""All that `components/` puts into a pod. Another field is one that no other rule reads."""


def _privileged(manifest: Manifest) -> Iterator[str]:
    """Every value but an absent or false `privileged` counts as true, since a text or a number promises nothing."""
    for container in all_containers(manifest):
        if at(container, "securityContext").get("privileged") not in (None, False):
            yield f"{named(container)} is privileged"


def _volumes(known: frozenset[str]) -> Callable[[Manifest], Iterator[str]]:
    def check(manifest: Manifest) -> Iterator[str]:
        for volume in items(pod_of(manifest), "volumes"):
            if kinds := sorted(set(map(str, volume)) - known):
                yield f"volume {str(volume.get('name'))!r} is of kind {', '.join(kinds)}"
            elif not volume:
                yield "a volume cannot be read"

    return check


def _known_fields(objects: Objects) -> Iterator[ObjectProblem]:
    for manifest in objects if objects.lease_namespaces else ():
        if objects.is_kept(manifest):
            continue
        pod = pod_of(manifest)
        yield from _others(manifest, "the pod", pod, _POD_FIELDS)
        yield from _others(manifest, "the pod's securityContext", at(pod, "securityContext"), _POD_CONTEXT)
        for container in all_containers(manifest):
            name, context = named(container), at(container, "securityContext")
            yield from _others(manifest, name, container, _CONTAINER_FIELDS)
            yield from _others(manifest, f"the securityContext of {name}", context, _CONTAINER_CONTEXT)
            for variable in items(container, "env"):
                yield from _others(manifest, f"a variable of {name}", at(variable, "valueFrom"), _SOURCES)


def _others(manifest: Manifest, place: str, found: Mapping[str, Any], known: frozenset[str]) -> Iterator[ObjectProblem]:
    if strange := sorted(map(str, set(found) - known)):
        yield ObjectProblem(manifest, f"{place} has {', '.join(strange)}")


def _announces(manifest: Manifest) -> bool:
    """Whether this is MetalLB's speaker, which answers ARP in the network of its node. A lease has no DaemonSet."""
    labels = at(manifest, "metadata", "labels")
    chosen = (labels.get("app"), labels.get("component")) == ("metallb", "speaker")
    return manifest.get("kind") == "DaemonSet" and chosen


def _root_user(manifest: Manifest) -> Iterator[str]:
    """The provider's own pods need no root and no writable image."""
    pod = pod_of(manifest)
    for container in all_containers(manifest) if pod else ():
        context = at(container, "securityContext")
        bound = {**at(pod, "securityContext"), **context}.get("runAsNonRoot") is True
        if not bound and not _announces(manifest):
            yield f"{named(container)} may run as root"
        if context.get("readOnlyRootFilesystem") is not True:
            yield f"{named(container)} may write to its image"
        if "ALL" not in listed(at(context, "capabilities").get("drop")):
            yield f"{named(container)} keeps capabilities"


def _host_namespaces(manifest: Manifest) -> Iterator[str]:
    pod = pod_of(manifest)
    for field in _HOST:
        if pod.get(field) not in (None, False) and not (field == "hostNetwork" and _announces(manifest)):
            yield f"{field} is set"


def _capabilities(manifest: Manifest) -> Iterator[str]:
    for container in all_containers(manifest):
        added = at(container, "securityContext", "capabilities").get("add")
        if added and not (list(listed(added)) == ["NET_RAW"] and _announces(manifest)):
            yield f"{named(container)} adds capabilities {added}"


def _unmasked_proc(manifest: Manifest) -> Iterator[str]:
    for container in all_containers(manifest):
        if at(container, "securityContext").get("procMount") not in (None, "Default"):
            yield f"{named(container)} has an unmasked /proc"


def _escalation(manifest: Manifest) -> Iterator[str]:
    for container in all_containers(manifest):
        if at(container, "securityContext").get("allowPrivilegeEscalation") is not False:
            yield f"{named(container)} may gain privileges"


def _contexts(manifest: Manifest) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "the pod", at(pod_of(manifest), "securityContext")
    for container in all_containers(manifest):
        yield named(container), at(container, "securityContext")


def _profiles(manifest: Manifest) -> Iterator[str]:
    for who, context in _contexts(manifest):
        for field in ("seccompProfile", "appArmorProfile"):
            found = context.get(field)
            if found is not None and at(context, field).get("type") not in _PROFILES:
                yield f"{who} has {field} {found}"
    for key, value in at(pod_metadata(manifest), "annotations").items():
        if "seccomp" in str(key) or "apparmor" in str(key):
            yield f"the pod has annotation {key}={value}"


def _seccomp(manifest: Manifest) -> Iterator[str]:
    pod = pod_of(manifest)
    if pod and at(pod, "securityContext", "seccompProfile").get("type") != "RuntimeDefault":
        yield "the pod has no seccomp profile RuntimeDefault"


def _kernel(manifest: Manifest) -> Iterator[str]:
    for who, context in _contexts(manifest):
        labels = at(context, "seLinuxOptions")
        if context.get("windowsOptions") or labels.get("user") or labels.get("role") or labels.get("type"):
            yield f"{who} has windowsOptions or seLinuxOptions"
    for sysctl in items(at(pod_of(manifest), "securityContext"), "sysctls"):
        if sysctl.get("name") not in _SAFE_SYSCTLS:
            yield f"sysctl {sysctl.get('name')} is set"


def _host_ports(manifest: Manifest) -> Iterator[str]:
    for container in all_containers(manifest):
        for port in items(container, "ports"):
            if port.get("hostPort") not in (None, 0) or port.get("hostIP"):
                yield f"{named(container)} takes a port of its node"


def _binding(manifest: Manifest) -> Iterator[str]:
    """Fields that choose a node or pass its checks: the scheduler decides, and tenants tolerate nothing."""
    pod = pod_of(manifest)
    for field in ("nodeName", "tolerations", "priorityClassName", "schedulerName"):
        if pod.get(field) not in (None, "", [], "default-scheduler"):
            yield f"{field} is set"


RULES = (
    fence(
        "no-privileged-container",
        of_each(_privileged),
        reason="A privileged container controls its node and every other tenant's containers there.",
        remedy="Remove securityContext.privileged, or set it to false.",
        domains=BOTH,
    ),
    fence(
        "no-foreign-volume",
        of_each(_volumes(_VOLUMES)),
        reason="A volume of the node (hostPath), of a foreign Secret or of a projected token is another's data.",
        remedy="Use emptyDir or persistentVolumeClaim.",
    ),
    fence(
        "no-node-volume",
        of_each(_volumes(_OWN_VOLUMES)),
        reason="A volume of the node (hostPath) gives the provider's own processes the node.",
        remedy="Use emptyDir, persistentVolumeClaim, configMap, secret or projected.",
        domains=(Domain.CLUSTER,),
    ),
    fence(
        "known-pod-fields",
        _known_fields,
        reason="Another field (a probe of a foreign host, a shared process namespace, a raw device) is read by no "
        "other rule.",
        remedy="Use the fields that a lease's pod is made of.",
        scope=RuleScope.STACK,
    ),
    fence(
        "unprivileged-own-pods",
        of_each(_root_user),
        reason="A break into the provider's own process must not give more than its rights in the cluster.",
        remedy="Set runAsNonRoot and readOnlyRootFilesystem, and drop the capabilities ALL.",
        domains=(Domain.CLUSTER,),
    ),
    fence(
        "no-host-namespace",
        of_each(_host_namespaces),
        reason="A pod in its node's namespaces sees and reaches every process and service of the node.",
        remedy="Remove hostNetwork, hostPID and hostIPC.",
        domains=BOTH,
    ),
    fence(
        "no-added-capability",
        of_each(_capabilities),
        reason="An added capability is a power over the node or over other pods.",
        remedy="Remove securityContext.capabilities.add.",
        domains=BOTH,
    ),
    fence(
        "masked-proc",
        of_each(_unmasked_proc),
        reason="An unmasked /proc shows and changes the kernel's state.",
        remedy="Remove securityContext.procMount.",
        domains=BOTH,
    ),
    fence(
        "no-privilege-escalation",
        of_each(_escalation),
        reason="A program with the setuid bit would gain more privileges than its container was given.",
        remedy="Set securityContext.allowPrivilegeEscalation to false.",
        domains=BOTH,
    ),
    fence(
        "no-profile-of-ones-own",
        of_each(_profiles),
        reason="An unconfined pod, or one with a profile of the node, can make every call to the kernel.",
        remedy="Use the profile RuntimeDefault, or none.",
        domains=BOTH,
    ),
    fence(
        "seccomp-profile",
        of_each(_seccomp),
        reason="Without a profile the kubelet runs the pod unconfined.",
        remedy="Set securityContext.seccompProfile.type of the pod to RuntimeDefault.",
        form=2,
        domains=BOTH,
    ),
    fence(
        "no-kernel-option",
        of_each(_kernel),
        reason="Labels of SELinux, options of Windows and unsafe sysctls change what the node guards.",
        remedy="Remove seLinuxOptions, windowsOptions and unsafe sysctls.",
        domains=BOTH,
    ),
    fence(
        "no-host-port",
        of_each(_host_ports),
        reason="A port of the node is reached past the network policies, and only one pod can have it.",
        remedy="Remove hostPort and hostIP.",
        domains=BOTH,
    ),
    fence(
        "no-chosen-node",
        of_each(_binding),
        reason="A pod that chooses its node, tolerates taints or has a priority takes what other tenants rent.",
        remedy="Remove nodeName, tolerations, priorityClassName and schedulerName.",
    ),
)
