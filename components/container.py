"""The one container of a service's pod (kubernetes-objects.md §2.5)."""

from __future__ import annotations

from components.environment import environment
from components.labels import Object
from components.placement import gpu_resource
from components.quantity import decimal, milli
from components.volumes import mounts
from lease.spec import ServiceSpec

__all__ = ["NEEDLESS", "container"]

NEEDLESS = ("MKNOD", "NET_RAW")
"""Capabilities of a runtime's usual set that no tenant needs: device files, and packets with any sender. The others
stay: package managers, `sshd` and servers that change their user need them (decision 26).
"""


def container(service: ServiceSpec, *, fenced: bool) -> Object:
    """The container, with the fences of form 2 if `fenced`. Fields that the Go provider leaves to the API server's
    defaults are not set.
    """
    optional: Object = {
        "command": list(service.command),
        "args": list(service.args),
        "ports": [{"containerPort": port} for port in dict.fromkeys(port.port for port in service.ports)],
        "env": environment(service),
        "volumeMounts": mounts(service),
    }
    return {
        "name": service.name,
        "image": service.image,
        **{key: value for key, value in optional.items() if value},
        "resources": {"requests": _requests(service), "limits": _limits(service)},
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"privileged": False, "runAsNonRoot": False, "allowPrivilegeEscalation": False}
        | ({"capabilities": {"drop": list(NEEDLESS)}} if fenced else {}),
    }


def _requests(service: ServiceSpec) -> dict[str, str]:
    return _amounts(
        service,
        cpu_milli=service.cpu_request_milli,
        memory_bytes=service.memory_request_bytes,
        ephemeral_bytes=service.ephemeral_request_bytes,
    )


def _limits(service: ServiceSpec) -> dict[str, str]:
    return _amounts(
        service,
        cpu_milli=service.cpu_limit_milli,
        memory_bytes=service.memory_limit_bytes,
        ephemeral_bytes=service.ephemeral_limit_bytes,
    )


def _amounts(service: ServiceSpec, *, cpu_milli: int, memory_bytes: int, ephemeral_bytes: int) -> dict[str, str]:
    """Requests and limits. GPUs are never overcommitted, so that both are the same number (§2.5.2)."""
    amounts = {"cpu": milli(cpu_milli), "memory": decimal(memory_bytes)}
    if ephemeral_bytes:
        amounts["ephemeral-storage"] = decimal(ephemeral_bytes)
    if service.gpu_units:
        amounts[gpu_resource(service)] = decimal(service.gpu_units)
    return amounts
