"""The version of a service in the next spec: whether the service, or its pods, are those of the spec before."""

from __future__ import annotations

from pydantic import SecretStr

from lease.spec import PortSpec, RegistryCredentials, ServiceSpec

__all__ = ["OLD_REPLICA_SETS", "versioned"]

OLD_REPLICA_SETS = 1
"""How many ReplicaSets of older pods a new service keeps. The stack itself goes back to an older version, by applying
it, and then uses the one ReplicaSet that is left of it.
"""


def versioned(spec: ServiceSpec, previous: ServiceSpec | None, *, fenced: bool) -> ServiceSpec:
    """`spec` with the versions of `previous` as far as nothing has changed: pods are not made anew for a change that is
    not theirs. `fenced`: whether the objects have the newer form.
    """
    if previous is None:
        return spec.model_copy(update={"old_replica_sets": OLD_REPLICA_SETS}) if fenced else spec
    kept = {"pods_version": previous.pods_version, "old_replica_sets": previous.old_replica_sets}
    same = spec.model_copy(update=kept | {"resource_version": previous.resource_version})
    if same == previous:
        return same
    pods = previous.rollout_version if _of_the_pods(spec) == _of_the_pods(previous) else ""
    return spec.model_copy(update=kept | {"pods_version": pods})


def _of_the_pods(service: ServiceSpec) -> ServiceSpec:
    """The service without what its pods do not show: how many they are, the text of its pull secret, and of its exposes
    all but the ports that the container listens on.
    """
    credentials = service.credentials and RegistryCredentials(host="", email="", username="", password=SecretStr(""))
    ports = dict.fromkeys(port.port for port in service.ports)
    return service.model_copy(
        update={
            "count": 0,
            "resource_version": "",
            "pods_version": "",
            "old_replica_sets": 0,
            "credentials": credentials,
            "permissions_read": ("logs",) if service.permissions_read else (),
            "ports": tuple(
                PortSpec(index=0, port=port, external_port=port, proto="TCP", global_=False, ingress=False)
                for port in ports
            ),
        }
    )
