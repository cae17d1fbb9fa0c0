"""A lease as one Pulumi component."""

from __future__ import annotations

import pulumi

from components.labels import Object
from components.lease import lease_parts
from components.parts import LeaseParts
from components.resources.manifest import ManifestResource
from components.resources.parts import Hostname, Isolation, KubernetesServices, LeasedIp, Namespace, Workload
from lease.spec import LeaseSpec

__all__ = ["LeaseComponent"]


class LeaseComponent(pulumi.ComponentResource):
    """Registers exactly `components.lease.lease_objects(spec)`, in dependency order; `opts` holds the cluster's
    provider.

    Raises `BuildError` before anything is registered.
    """

    def __init__(self, name: str, spec: LeaseSpec, opts: pulumi.ResourceOptions) -> None:
        parts = lease_parts(spec)
        super().__init__("lessor:lease:Lease", name, None, opts)
        self._inside = pulumi.ResourceOptions(parent=self)
        self._home = Namespace(name, parts.namespace, self._inside)
        self._isolation = Isolation(name, _isolating(parts), home=self._home, opts=self._inside)
        self._beside(parts)
        self.register_outputs({"namespace": spec.namespace})

    def _beside(self, parts: LeaseParts) -> None:
        """Register everything except the namespace and its isolation."""
        made: list[ManifestResource] = []
        for part in parts.services:
            made.append(Workload(part, home=self._home, after=self._isolation.resources, opts=self._inside).resource)
            if part.services:
                made += KubernetesServices(part, home=self._home, opts=self._inside).resources
        made += [Hostname(hostname, home=self._home, opts=self._inside).resource for hostname in parts.hostnames]
        for address in parts.addresses:
            LeasedIp(address, home=self._home, after=made, opts=self._inside)


def _isolating(parts: LeaseParts) -> tuple[Object, ...]:
    return (*parts.credentials, *parts.bounds, *parts.policies)
