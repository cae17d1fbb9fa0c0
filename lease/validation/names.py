"""Names that Kubernetes refuses, or accepts and never runs: a service's name, the names made from it, and two names
that collide (kubernetes-objects.md §2.7-2.8).
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator, Sequence

from lease.kubernetes_names import LABEL_LENGTH
from lease.manifest import Service

__all__ = ["hostname_problems", "image_problems", "name_problems", "shared_name_problem"]

_STATEFUL_SET = 52
"""The longest name of a StatefulSet: the name and eleven more characters are a label of its pods."""


def _node_port(service: Service) -> bool:
    return any(expose.global_ and not expose.is_ingress for expose in service.expose or ())


def _leased_names(service: Service) -> list[str]:
    """The Kubernetes Services of leased addresses; the same port and protocol of one address twice needs one
    Service.
    """
    names = (
        (expose.ip, f"{service.name}-ip-{expose.effective_port}-{expose.proto.lower()}")
        for expose in service.expose or ()
        if expose.global_ and expose.ip
    )
    return [name for _, name in dict.fromkeys(names)]


def _policy_names(service: Service) -> Iterator[str]:
    """The service's NetworkPolicies (kubernetes-objects.md §2.2), with their kind, since Services may have the same
    names.
    """
    if _node_port(service):
        yield f"NetworkPolicy akash-{service.name}-np"
    if any(expose.ip for expose in service.expose or ()):
        yield f"NetworkPolicy akash-{service.name}-ip"
    if service.params and service.params.permissions and service.params.permissions.read:
        yield f"NetworkPolicy akash-apiserver-{service.name}"


def name_problems(service: Service) -> Iterator[str]:
    """The problem with the length of the service's name and of every name made from it."""
    longest = LABEL_LENGTH
    if any(volume.persistent for volume in service.resources.storage or ()):
        longest = _STATEFUL_SET
    if _node_port(service):
        longest = min(longest, LABEL_LENGTH - len("-np"))
    for name in _leased_names(service):
        longest = min(longest, LABEL_LENGTH - len(name) + len(service.name))
    if len(service.name) > longest:
        yield f"the name is longer than {longest} characters"


def shared_name_problem(services: Sequence[Service]) -> str:
    """The first Kubernetes Service or NetworkPolicy that two of the services would need; "" when there is none."""
    names = [service.name for service in services]
    names += [f"{service.name}-np" for service in services if _node_port(service)]
    names += [name for service in services for name in _leased_names(service)]
    names += [policy for service in services for policy in _policy_names(service)]
    return next((name for name, count in Counter(names).items() if count > 1), "")


def image_problems(image: str) -> Iterator[str]:
    """The problem with blanks or control characters in the image's name. An API server refuses blanks around it, a node
    all others, and no log should show control characters.
    """
    if not image.isprintable() or any(char.isspace() for char in image):
        yield f"image name {image!r} cannot have blanks or control characters"


def hostname_problems(service: Service) -> Iterator[str]:
    """Hostnames that pass as DNS-1123 subdomains and cannot be served: IP addresses, which no Ingress takes for a host,
    and labels that are too long for DNS.
    """
    for host in (host for expose in service.expose or () if expose.is_ingress for host in expose.hosts or ()):
        if any(len(label) > LABEL_LENGTH for label in host.split(".")):
            yield f'hostname "{host}" has a label of more than {LABEL_LENGTH} characters'
        try:
            ipaddress.ip_address(host)
        except ValueError:
            continue
        yield f'hostname "{host}" is an IP address'
