"""The workload of a service: a Deployment, or a StatefulSet where data outlives the pod (kubernetes-objects.md
§2.5).
"""

from __future__ import annotations

from components.checks import service_name
from components.container import container
from components.credentials import credentials_name
from components.labels import Object, metadata, pod_labels, selector, service_labels
from components.placement import affinity
from components.volumes import claim_templates, pod_volumes
from lease.spec import LeaseSpec, ServiceSpec

__all__ = ["workload_object"]

_FENCES = {
    "seccompProfile": {"type": "RuntimeDefault"},
    "sysctls": [{"name": "net.ipv4.ping_group_range", "value": "0 65535"}],
}
"""Without a profile the kubelet runs containers unconfined, unless the node's own settings say otherwise. The sysctl is
of the pod's own network: programs of any group may ping, which NET_RAW allowed before. A user namespace maps no group
above 65535.
"""


def workload_object(spec: LeaseSpec, service: ServiceSpec) -> Object:
    """The workload of one service, named after it."""
    name = service_name("service name", service.name)
    kind, own = ("StatefulSet", _stateful(service)) if service.persistent else ("Deployment", _stateless(service))
    common = {
        "replicas": service.count,
        "selector": {"matchLabels": selector(spec, service)},
        "template": {"metadata": {"labels": pod_labels(spec, service)}, "spec": _pod(spec, service)},
    }
    kept = next((item.fields for item in spec.kept if item.service == service.name), {})
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": metadata(name, spec.namespace, labels=service_labels(spec, service)),
        "spec": common | own | kept,
    }


def _stateless(service: ServiceSpec) -> Object:
    """The Deployment. The old pod ends first, since a lease's resources fit its replicas and not one more."""
    return {
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        "revisionHistoryLimit": service.old_replica_sets or 10,
    }


def _stateful(service: ServiceSpec) -> Object:
    """The StatefulSet. `maxUnavailable` is not set: 1 is its default, and most API servers drop it, so that it would
    drift for ever.
    """
    return {
        "volumeClaimTemplates": claim_templates(service),
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "revisionHistoryLimit": 1,
    }


def _pod(spec: LeaseSpec, service: ServiceSpec) -> Object:
    permitted = bool(service.permissions_read)
    optional: Object = {
        "volumes": pod_volumes(service),
        "serviceAccountName": service.name if permitted else "",
        "imagePullSecrets": _pull_secrets(spec, service),
        "runtimeClassName": "" if service.runtime_class == "none" else service.runtime_class,
    }
    return {
        "containers": [container(service, fenced=spec.fenced)],
        **{key: value for key, value in optional.items() if value},
        "automountServiceAccountToken": permitted,
        "securityContext": {"runAsNonRoot": False} | (_FENCES if spec.fenced else {}),
        "affinity": affinity(service),
        **({"hostUsers": False} if service.user_namespace else {}),
    }


def _pull_secrets(spec: LeaseSpec, service: ServiceSpec) -> list[Object]:
    """The service's own credentials, else the provider-wide Secret that an operator put into tenants' namespaces."""
    name = credentials_name(service) if service.credentials else spec.cluster.pull_secret.strip()
    return [{"name": name}] if name else []
