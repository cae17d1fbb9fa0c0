"""Objects as a cluster or a state holds them, as the manifests that somebody declared: without what the API server, its
controllers and Pulumi add.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from policies.pods import HIDDEN, at, items
from policies.rules import Manifest

__all__ = ["declared", "recorded"]

_SIGNATURE = "4dabf18193072939515e22adb298388d"
"""Pulumi's key of a special value in a state: a secret, which is stored encrypted."""
_POD_DEFAULTS: Mapping[str, object] = {
    "dnsPolicy": "ClusterFirst",
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
    "priority": 0,
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
}
_CONTAINER_DEFAULTS: Mapping[str, object] = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Tolerated by every pod for five minutes, by the admission of the API server."""
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_OF_CONTROLLERS = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "controller-revision-hash",
        "deployment.kubernetes.io/revision",
        "kubernetes.io/metadata.name",
        "pod-template-hash",
        "statefulset.kubernetes.io/pod-name",
    }
)
_ALLOCATED = ("clusterIP", "clusterIPs", "healthCheckNodePort")
_ACCOUNT_TOKEN = "kube-api-access-"  # noqa: S105 (the beginning of a volume's name)


def declared(obj: Manifest) -> Manifest:
    """An object of the cluster without defaults and allocated values. An object of any other form is returned."""
    made = {key: value for key, value in obj.items() if key != "status"}
    made["metadata"] = _metadata(obj)
    match obj.get("kind"):
        case "Pod":
            made["spec"] = _scheduled(_pod(at(obj, "spec")))
        case "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "Job":
            template = at(obj, "spec", "template")
            pod = {**template, "metadata": _metadata(template), "spec": _pod(at(template, "spec"))}
            made["spec"] = {**at(obj, "spec"), "template": pod}
        case "Service":
            made["spec"] = _service(at(obj, "spec"))
    return made


def _metadata(obj: Manifest) -> dict[str, Any]:
    found = at(obj, "metadata")
    kept = {key: found[key] for key in ("name", "namespace") if key in found}
    for part in ("labels", "annotations"):
        if part in found:
            kept[part] = {key: value for key, value in at(found, part).items() if key not in _OF_CONTROLLERS}
    return kept


def _without(found: Mapping[str, Any], defaults: Mapping[str, object]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in defaults or value != defaults[key]}


def _pod(spec: Mapping[str, Any]) -> dict[str, Any]:
    pod = _without(spec, _POD_DEFAULTS)
    if pod.get("serviceAccount") == pod.get("serviceAccountName"):
        pod.pop("serviceAccount", None)
    if pod.get("serviceAccountName") == "default" and pod.get("automountServiceAccountToken") is False:
        del pod["serviceAccountName"]
    for name in _CONTAINERS:
        if name in pod:
            pod[name] = [_container(each) for each in items(pod, name)]
    return pod


def _container(container: Mapping[str, Any]) -> dict[str, Any]:
    made = _without(container, _CONTAINER_DEFAULTS)
    if "volumeMounts" in made:
        mounts = items(made, "volumeMounts")
        made["volumeMounts"] = [each for each in mounts if not _is_token(each)]
    return made


def _scheduled(pod: dict[str, Any]) -> dict[str, Any]:
    """Without what the scheduler and the admission of pods write."""
    pod.pop("nodeName", None)
    if "tolerations" in pod:
        pod["tolerations"] = [each for each in items(pod, "tolerations") if each.get("key") not in _TAINTS]
    if "volumes" in pod:
        pod["volumes"] = [each for each in items(pod, "volumes") if not _is_token(each)]
    return pod


def _is_token(value: Mapping[str, Any]) -> bool:
    return str(value.get("name")).startswith(_ACCOUNT_TOKEN)


def _service(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Addresses and node ports look alike whether the cluster has allocated them or somebody has chosen them."""
    made = {key: value for key, value in spec.items() if key not in _ALLOCATED}
    made["ports"] = [{key: value for key, value in port.items() if key != "nodePort"} for port in items(spec, "ports")]
    return made


def recorded(resources: Iterable[Mapping[str, Any]]) -> list[Manifest]:
    """The Kubernetes objects among the resources of a Pulumi state, with `HIDDEN` for each secret value."""
    kubernetes = (item for item in resources if str(item.get("type")).startswith("kubernetes:"))
    return [_shown(item["inputs"]) for item in kubernetes if not item.get("delete") and "kind" in at(item, "inputs")]


def _shown(value: Any) -> Any:
    if isinstance(value, Mapping):
        if _SIGNATURE in value:
            return HIDDEN
        return {key: _shown(each) for key, each in value.items() if not str(key).startswith("__")}
    if isinstance(value, list):
        return [_shown(each) for each in value]
    return value
