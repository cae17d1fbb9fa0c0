"""Parts of an accepted manifest that have no effect: exposes of which another one has the port (kubernetes-objects.md
§2.7, §2.8), and HTTP options that the edge does not read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields

from lease.manifest import Expose, Group, HttpOptions, Service

__all__ = ["dropped_exposes", "ignored_options"]


def dropped_exposes(group: Group) -> tuple[str, ...]:
    """A text for each expose that loses its port to an earlier one of the manifest. An expose that leads to the same
    place as the earlier one loses nothing: each `to` of an SDL is one.
    """
    taken: dict[tuple[object, ...], tuple[str, int]] = {}
    texts: dict[str, None] = {}
    for service in group.services or ():
        for expose in service.expose or ():
            target = (service.name, expose.port)
            holders = [taken.setdefault(place, target) for place in _places(service, expose)]
            if holders[-1] != target:
                texts[_text(service, expose)] = None
    return tuple(texts)


def ignored_options(group: Group, ignored: Collection[str]) -> tuple[str, ...]:
    """A text for each HTTP expose for which the tenant has chosen options that the edge does not apply (`ignored`)."""
    return tuple(
        f"service {service.name}: port {expose.port}: this provider's edge does not apply its HTTP options "
        f"({', '.join(named)})"
        for service in group.services or ()
        for expose in service.expose or ()
        if expose.is_ingress and (named := [one for one in _options(expose.http_options) if one in ignored])
    )


def _options(options: HttpOptions) -> list[str]:
    """Names of the options that the tenant has chosen; without a body size none was (kubernetes-objects.md §2.9)."""
    if not options.max_body_size:
        return []
    default = HttpOptions()
    return [one.name for one in fields(options) if getattr(options, one.name) != getattr(default, one.name)]


def _places(service: Service, expose: Expose) -> list[tuple[object, ...]]:
    """Where the expose is served: a port of the service, inside or on the nodes, and a leased address if it has one.
    The last place is the one that it was made for.
    """
    port = (expose.effective_port, expose.proto.upper() or "TCP")
    outside = expose.global_ and not expose.is_ingress
    places: list[tuple[object, ...]] = [(service.name, outside, *port)]
    return [*places, ("ip", expose.ip, *port)] if expose.global_ and expose.ip else places


def _text(service: Service, expose: Expose) -> str:
    port = f"{expose.effective_port}/{expose.proto.upper() or 'TCP'}"
    return f"service {service.name}: port {expose.port} is not served as {port}: an earlier expose has that port"
