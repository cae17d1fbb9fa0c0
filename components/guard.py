"""The check of a whole spec before anything is built from it.

A manifest is a tenant's JSON, and a spec may be damaged or stored by an older version. Whatever was checked before, no
object may reach the API server that it would refuse after half of the lease is made, and no unchecked value a
container's start or the shared HTTP edge. Labels, annotations, hostnames and placement are checked in their own
builders; this module checks what no single builder sees.
"""

from __future__ import annotations

from collections.abc import Iterable

from components.checks import service_name, subdomain, text, within
from components.environment import BARE_IN_YAML
from components.errors import BuildError
from lease.kubernetes_names import LABEL_LENGTH, is_label, is_variable_name
from lease.spec import LeasedIpSpec, LeaseSpec, PortSpec, ServiceSpec, VolumeKind, VolumeSpec

__all__ = ["check_spec"]

_INT32 = 2**31 - 1
_INT64 = 2**63 - 1
_PORT = 65535
_STATEFUL_NAME = 52
"""The longest name of a StatefulSet: with eleven more characters it is a label of its pods. The API server takes a
longer name and its pods never run.
"""


def check_spec(spec: LeaseSpec) -> None:
    """Raise `BuildError` for the first value that fits no cluster; its text names the place and what is allowed."""
    for service in spec.services:
        _service(service)
    for leased in spec.leased_ips:
        _leased(leased)
    for hostname in spec.hostnames:
        _port(f"external port of hostname {hostname.hostname}", hostname.external_port)
    cluster = spec.cluster
    for place, name in (("ingress class", cluster.ingress_class), ("pull secret", cluster.pull_secret.strip())):
        if name:
            subdomain(f"setting {place}", name)


def _service(service: ServiceSpec) -> None:
    place = f"service {service.name!r}"
    _names(service)
    _image(f"image of {place}", service.image)
    _texts(place, service)
    within(f"count of {place}", service.count, _INT32)
    if service.runtime_class:
        subdomain(f"runtime class of {place}", service.runtime_class)
    for port in service.ports:
        _exposed(place, port)
    _amounts(place, service)
    _volumes(place, service)


def _names(service: ServiceSpec) -> None:
    """Check the names made from the service's own: `<service>-np`, and the labels of a StatefulSet's pods."""
    service_name("service name", service.name)
    longest = _STATEFUL_NAME if service.persistent else LABEL_LENGTH
    if any(port.global_ and not port.ingress for port in service.ports):
        longest = min(longest, LABEL_LENGTH - len("-np"))
    if len(service.name) > longest:
        raise BuildError(
            "service name", service.name, f"at most {longest} characters, with the volumes and exposes of this service"
        )


def _image(place: str, image: str) -> None:
    if not image or not image.isprintable() or any(char.isspace() for char in image):
        raise BuildError(place, image, "an image name without blanks and control characters")


def _texts(place: str, service: ServiceSpec) -> None:
    for word in (*service.command, *service.args):
        _applied_text(f"command or args of {place}", word)
    for variable in service.environment:
        if not is_variable_name(variable.name):
            allowed = "letters, digits, '-', '_' and '.', no digit first"
            raise BuildError(f"name of a variable of {place}", variable.name, allowed)
        _secret_text(f"value of variable {variable.name} of {place}", variable.value.get_secret_value())


def _applied_text(place: str, value: str) -> str:
    """As `text`, without characters that an apply refuses or changes. Values of variables may have them, since they can
    go into a Secret.
    """
    if BARE_IN_YAML.search(text(place, value)):
        raise BuildError(place, value, "text without DEL, C1 controls (U+0080 to U+009F), U+FFFE and U+FFFF")
    return value


def _secret_text(place: str, value: str) -> None:
    """As `text`, but the error does not show the tenant's value."""
    try:
        text(place, value)
    except BuildError as error:
        raise BuildError(place, "(not shown)", error.allowed) from None


def _exposed(place: str, port: PortSpec) -> None:
    _port(f"port of {place}", port.port)
    _port(f"external port of {place}", port.external_port)
    _protocol(f"protocol of {place}", port.proto)


def _port(place: str, number: int) -> None:
    if not 1 <= number <= _PORT:
        raise BuildError(place, number, f"1 to {_PORT}")


def _protocol(place: str, proto: str) -> None:
    if proto.upper() not in ("TCP", "UDP"):
        raise BuildError(place, proto, "TCP, UDP")


def _amounts(place: str, service: ServiceSpec) -> None:
    """Check the amounts: the API server refuses a request above its limit, every node a negative one."""
    amounts = (
        ("cpu", service.cpu_request_milli, service.cpu_limit_milli),
        ("memory", service.memory_request_bytes, service.memory_limit_bytes),
        ("ephemeral storage", service.ephemeral_request_bytes, service.ephemeral_limit_bytes),
        ("gpu", service.gpu_units, service.gpu_units),
    )
    for name, request, limit in amounts:
        within(f"{name} limit of {place}", limit, _INT64)
        within(f"{name} request of {place}", request, limit)


def _volumes(place: str, service: ServiceSpec) -> None:
    """Check that names and mount paths are unique. Only a volume of the pod needs a name that Kubernetes takes."""
    _once(f"volumes of {place}", [volume.name for volume in service.volumes])
    _once(f"mount paths of {place}", [volume.mount for volume in service.volumes if volume.mount])
    for volume in service.volumes:
        if volume.mount or volume.kind is not VolumeKind.EPHEMERAL:
            _volume(place, service, volume)


def _volume(place: str, service: ServiceSpec, volume: VolumeSpec) -> None:
    least = 1 if volume.kind is VolumeKind.PERSISTENT else 0
    if not least <= volume.size_bytes <= _INT64:
        raise BuildError(f"size of volume {volume.name!r} of {place}", volume.size_bytes, f"{least} to {_INT64} bytes")
    if not is_label(f"{service.name}-{volume.name}"):
        allowed = "together with the service's name and a dash a lower-case RFC 1123 label of at most 63 characters"
        raise BuildError(f"name of a volume of {place}", volume.name, allowed)
    path = _applied_text(f"mount path of {place}", volume.mount)
    if path and (not path.startswith("/") or ":" in path):
        raise BuildError(f"mount path of {place}", path, "an absolute path without a colon")


def _leased(leased: LeasedIpSpec) -> None:
    place = f"leased IP of service {leased.service!r}"
    service_name(place, leased.service)
    _port(f"port of {place}", leased.port)
    _port(f"external port of {place}", leased.external_port)
    _protocol(f"protocol of {place}", leased.proto)
    name = f"{leased.service}-ip-{leased.external_port}-{leased.proto}"
    if len(name) > LABEL_LENGTH:
        raise BuildError(
            "service name", leased.service, f"short enough for {name} to have at most {LABEL_LENGTH} characters"
        )


def _once(place: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise BuildError(place, name, "each name once")
        seen.add(name)
