"""MetalLB itself as plain objects: custom resources, controller and speaker, without a pool.

The addresses are the leases' (docs/architecture.md §5). The controller's webhook is off: a webhook that does not answer
stops the cluster, and Lessor chooses addresses that fit before it writes them. Without the webhook the controller needs
no right on custom resources and webhooks, which MetalLB's own manifests give.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any, TypeAlias

import yaml

from stacks.cluster.inventory_rights import Rule
from stacks.cluster.processes import Grant
from stacks.cluster.settings import MetalLbSettings

__all__ = ["CONTROLLER", "SPEAKER", "definitions", "grants", "workloads"]

Object: TypeAlias = dict[str, Any]
CONTROLLER, SPEAKER = "controller", "speaker"
"""Names of the workloads, of their accounts and of their containers, as in MetalLB's own manifests."""
_SECRET, _INTERFACES = "memberlist", "metallb-excludel2"
_READ = ("get", "list", "watch")
_WRITE = (*_READ, "create", "update", "patch", "delete")
_CONFIGURATION: Rule = (
    "metallb.io",
    ("bfdprofiles", "bgpadvertisements", "bgppeers", "communities", "ipaddresspools", "l2advertisements"),
    _READ,
)
_EVENTS: Rule = ("", ("events",), ("create", "patch"))
_CONTROLLER_EVERYWHERE: tuple[Rule, ...] = (
    ("", ("services", "namespaces"), _READ),
    ("", ("nodes",), ("list",)),
    ("", ("services/status",), ("update",)),
    _EVENTS,
)
_CONTROLLER_OWN: tuple[Rule, ...] = (
    _CONFIGURATION,
    ("metallb.io", ("ipaddresspools/status",), ("update",)),
    ("", ("secrets",), (*_READ, "create")),
    ("apps", ("deployments",), ("get",)),
)
_SPEAKER_EVERYWHERE: tuple[Rule, ...] = (
    ("", ("services", "endpoints", "nodes", "namespaces"), _READ),
    ("discovery.k8s.io", ("endpointslices",), _READ),
    ("metallb.io", ("servicel2statuses", "servicel2statuses/status"), _WRITE),
    _EVENTS,
)
_SPEAKER_OWN: tuple[Rule, ...] = (
    _CONFIGURATION,
    ("metallb.io", ("servicebgpstatuses", "servicebgpstatuses/status"), _WRITE),
    ("", ("pods",), ("get", "list")),
    ("", ("secrets", "configmaps"), _READ),
)
_INSIDE = "docker.* cbr.* dummy.* virbr.* lxcbr.* veth.* lo$ cali.* tunl.* flannel.* kube-ipvs.* cni.* nodelocaldns.*"
"""Interfaces of a node on which no address is announced, as in MetalLB's own manifests."""
_TOLERATED = ("master", "control-plane")


def definitions() -> list[Object]:
    """The custom resources."""
    text = files("stacks.cluster").joinpath("data/metallb.yaml").read_text()
    return [document for document in yaml.safe_load_all(text) if document]


def grants(namespace: str) -> Mapping[str, tuple[Grant, ...]]:
    """Rights by account."""
    return {
        CONTROLLER: (Grant(_CONTROLLER_EVERYWHERE), Grant(_CONTROLLER_OWN, namespace)),
        SPEAKER: (Grant(_SPEAKER_EVERYWHERE), Grant(_SPEAKER_OWN, namespace)),
    }


def workloads(settings: MetalLbSettings) -> list[Object]:
    """The speakers' interfaces, the controller, and the speaker of each node."""
    patterns = [f"^{name}" for name in _INSIDE.split()]
    interfaces = {"excludel2.yaml": yaml.safe_dump({"announcedInterfacesToExclude": patterns})}
    metadata = {"name": _INTERFACES, "namespace": settings.namespace, "labels": {"app": "metallb"}}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": interfaces},
        _workload("Deployment", CONTROLLER, settings.namespace, _controller(settings)),
        _workload("DaemonSet", SPEAKER, settings.namespace, _speaker(settings)),
    ]


def _workload(kind: str, name: str, namespace: str, pod: Object) -> Object:
    labels = {"app": "metallb", "component": name}
    template = {"metadata": {"labels": labels}, "spec": {"serviceAccountName": name, **pod}}
    spec = {"revisionHistoryLimit": 3, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def _controller(settings: MetalLbSettings) -> Object:
    arguments = [f"--namespace={settings.namespace}", "--webhook-mode=disabled", "--disable-cert-rotation"]
    arguments += [f"--ml-secret-name={_SECRET}", f"--deployment={CONTROLLER}"]
    container = _container(CONTROLLER, settings.controller_image, arguments)
    container["securityContext"]["runAsNonRoot"] = True
    context = {"runAsNonRoot": True, "runAsUser": 65534, "fsGroup": 65534, "seccompProfile": {"type": "RuntimeDefault"}}
    return {"containers": [container], "securityContext": context, "terminationGracePeriodSeconds": 0}


def _speaker(settings: MetalLbSettings) -> Object:
    """In the node's own network, where it answers ARP for the addresses."""
    container = _container(SPEAKER, settings.speaker_image, [f"--namespace={settings.namespace}"])
    fields = {
        "METALLB_NODE_NAME": "spec.nodeName",
        "METALLB_POD_NAME": "metadata.name",
        "METALLB_HOST": "status.hostIP",
        "METALLB_ML_BIND_ADDR": "status.podIP",
    }
    container["env"] = [
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
        _value("METALLB_ML_LABELS", f"app=metallb,component={SPEAKER}"),
        _value("METALLB_ML_SECRET_KEY_PATH", "/etc/ml_secret_key"),
    ]
    container["securityContext"]["capabilities"]["add"] = ["NET_RAW"]
    container["volumeMounts"] = [
        {"name": _SECRET, "mountPath": "/etc/ml_secret_key", "readOnly": True},
        {"name": _INTERFACES, "mountPath": "/etc/metallb", "readOnly": True},
    ]
    roles = [f"node-role.kubernetes.io/{role}" for role in _TOLERATED]
    return {
        "hostNetwork": True,
        "containers": [container],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "terminationGracePeriodSeconds": 2,
        "tolerations": [{"effect": "NoSchedule", "key": role, "operator": "Exists"} for role in roles],
        "volumes": [
            {"name": _SECRET, "secret": {"secretName": _SECRET, "defaultMode": 0o440}},
            {"name": _INTERFACES, "configMap": {"name": _INTERFACES, "defaultMode": 0o400}},
        ],
    }


def _container(name: str, image: str, arguments: list[str]) -> Object:
    """With MetalLB's own probes, but for liveness, which is the open port."""
    return {
        "name": name,
        "image": image,
        "args": ["--port=7472", "--log-level=info", *arguments],
        "ports": [{"name": "monitoring", "containerPort": 7472}],
        "livenessProbe": {"tcpSocket": {"port": "monitoring"}, "initialDelaySeconds": 10, "periodSeconds": 10},
        "readinessProbe": {"httpGet": {"path": "/metrics", "port": "monitoring"}, "periodSeconds": 10},
        "resources": {
            "requests": {"cpu": "50m", "memory": "64Mi"},
            "limits": {"cpu": "500m", "memory": "256Mi", "ephemeral-storage": "256Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _value(name: str, value: str) -> Object:
    return {"name": name, "value": value}
