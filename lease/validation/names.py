"""Names that Kubernetes would refuse, or take and never run: a service's own, those made from it, and two that meet
(kubernetes-objects.md §2.7-2.8).
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator, Sequence

from lease.kubernetes_names import LABEL_LENGTH
from lease.manifest import Service

__all__ = ["hostname_problems", "image_problems", "name_problems", "shared_name_problem"]

_STATEFUL_SET = 52
"""A StatefulSet's name and eleven more characters are a label of its pods."""


def _node_port(service: Service) -> bool:
    return any(expose.global_ and not expose.is_ingress for expose in service.expose or ())


def _leased_names(service: Service) -> list[str]:
    """Services of leased addresses; the same port and protocol of one address twice is one."""
    names = (
        (expose.ip, f"{service.name}-ip-{expose.effective_port}-{expose.proto.lower()}")
        for expose in service.expose or ()
        if expose.global_ and expose.ip
    )
    return [name for _, name in dict.fromkeys(names)]


def _policy_names(service: Service) -> Iterator[str]:
    """Its NetworkPolicies (kubernetes-objects.md §2.2), with their kind: names of Services are others."""
    if _node_port(service):
        yield f"NetworkPolicy akash-{service.name}-np"
    if any(expose.ip for expose in service.expose or ()):
        yield f"NetworkPolicy akash-{service.name}-ip"
    if service.params and service.params.permissions and service.params.permissions.read:
        yield f"NetworkPolicy akash-apiserver-{service.name}"


def name_problems(service: Service) -> Iterator[str]:
    """The name's length with all that is made from it."""
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
    """The first Kubernetes Service or NetworkPolicy that two of the services would need, "" when there is none."""
    names = [service.name for service in services]
    names += [f"{service.name}-np" for service in services if _node_port(service)]
    names += [name for service in services for name in _leased_names(service)]
    names += [policy for service in services for policy in _policy_names(service)]
    return next((name for name, count in Counter(names).items() if count > 1), "")


def image_problems(image: str) -> Iterator[str]:
    """An API server refuses blanks around it, a node every other one, and no log should show control characters."""
    if not image.isprintable() or any(char.isspace() for char in image):
        yield f"image name {image!r} cannot have blanks or control characters"


def hostname_problems(service: Service) -> Iterator[str]:
    """A DNS-1123 subdomain may look like an IP address, which no Ingress takes for a host, or have a label that is too
    long for any DNS.
    """
    for host in (host for expose in service.expose or () if expose.is_ingress for host in expose.hosts or ()):
        if any(len(label) > LABEL_LENGTH for label in host.split(".")):
            yield f'hostname "{host}" has a label of more than {LABEL_LENGTH} characters'
        try:
            ipaddress.ip_address(host)
        except ValueError:
            continue
        yield f'hostname "{host}" is an IP address'
