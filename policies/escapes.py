"""Rules about a pod's ways out of its containers: what the level `baseline` of the API server refuses, and more.

Lessor builds none of these. The rules hold when a builder, a stored record or a person's program is wrong. A value of
another form than Kubernetes knows counts as the dangerous one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.pods import all_containers, at, items, named, pod_metadata, pod_of
from policies.rules import Manifest, fence, of_each

__all__ = ["RULES"]

_VOLUMES = frozenset({"name", "emptyDir", "persistentVolumeClaim"})
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


def _volumes(manifest: Manifest) -> Iterator[str]:
    for volume in items(pod_of(manifest), "volumes"):
        if kinds := sorted(set(map(str, volume)) - _VOLUMES):
            yield f"volume {str(volume.get('name'))!r} is of kind {', '.join(kinds)}"
        elif not volume:
            yield "a volume cannot be read"


def _host_namespaces(manifest: Manifest) -> Iterator[str]:
    pod = pod_of(manifest)
    for field in _HOST:
        if pod.get(field) not in (None, False):
            yield f"{field} is set"


def _capabilities(manifest: Manifest) -> Iterator[str]:
    for container in all_containers(manifest):
        if added := at(container, "securityContext", "capabilities").get("add"):
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
        "no-foreign-volume",
        of_each(_volumes),
        reason="A volume of the node (hostPath), of a foreign Secret or of a projected token is another's data.",
        remedy="Use emptyDir or persistentVolumeClaim.",
    ),
    fence(
        "no-host-namespace",
        of_each(_host_namespaces),
        reason="A pod in its node's namespaces sees and reaches every process and service of the node.",
        remedy="Remove hostNetwork, hostPID and hostIPC.",
    ),
    fence(
        "no-added-capability",
        of_each(_capabilities),
        reason="An added capability is a power over the node or over other pods.",
        remedy="Remove securityContext.capabilities.add.",
    ),
    fence(
        "masked-proc",
        of_each(_unmasked_proc),
        reason="An unmasked /proc shows and changes the kernel's state.",
        remedy="Remove securityContext.procMount.",
    ),
    fence(
        "no-privilege-escalation",
        of_each(_escalation),
        reason="A program with the setuid bit would gain more privileges than its container was given.",
        remedy="Set securityContext.allowPrivilegeEscalation to false.",
    ),
    fence(
        "no-profile-of-ones-own",
        of_each(_profiles),
        reason="An unconfined pod, or one with a profile of the node, can make every call to the kernel.",
        remedy="Use the profile RuntimeDefault, or none.",
    ),
    fence(
        "seccomp-profile",
        of_each(_seccomp),
        reason="Without a profile the kubelet runs the pod unconfined.",
        remedy="Set securityContext.seccompProfile.type of the pod to RuntimeDefault.",
        form=2,
    ),
    fence(
        "no-kernel-option",
        of_each(_kernel),
        reason="Labels of SELinux, options of Windows and unsafe sysctls change what the node guards.",
        remedy="Remove seLinuxOptions, windowsOptions and unsafe sysctls.",
    ),
    fence(
        "no-host-port",
        of_each(_host_ports),
        reason="A port of the node is reached past the network policies, and only one pod can have it.",
        remedy="Remove hostPort and hostIP.",
    ),
    fence(
        "no-chosen-node",
        of_each(_binding),
        reason="A pod that chooses its node, tolerates taints or has a priority takes what other tenants rent.",
        remedy="Remove nodeName, tolerations, priorityClassName and schedulerName.",
    ),
)
