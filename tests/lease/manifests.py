"""One small manifest, and changes to it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from lease.manifest import Expose, Group, Manifest, Service
from lease.resources import Endpoint, EndpointKind, Price, Resources, Volume

HTTP, PORT, IP = (Endpoint(kind) for kind in EndpointKind)
RESOURCES = Resources(1, 100, 2**27, (Volume("default", 2**30),), 0, (HTTP,))
EXPOSE = Expose(80, global_=True, hosts=("a-test.com",))
SERVICE = Service("web", "nginx", RESOURCES, 1, env=("FOO=",), expose=(EXPOSE,))
PRICE = Price("uact", Decimal(1))


def manifest(*services: Service, name: str = "dc") -> Manifest:
    return (Group(name, services),)


def with_resources(**changes: Any) -> Service:
    return replace(SERVICE, resources=replace(RESOURCES, **changes))


def with_expose(**changes: Any) -> Service:
    return replace(SERVICE, expose=(replace(EXPOSE, **changes),))
