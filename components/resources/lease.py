"""A lease as one Pulumi component."""

from __future__ import annotations

import pulumi

from components.lease import lease_parts
from components.resources.parts import Hostname, Isolation, LeasedIp, Namespace, Service, Workload
from lease.spec import LeaseSpec

__all__ = ["Lease"]


class Lease(pulumi.ComponentResource):
    """Registers exactly `components.lease.lease_objects(spec)`, in dependency order; `opts` brings the cluster.

    Raises `BuildError` before anything is registered.
    """

    def __init__(self, name: str, spec: LeaseSpec, opts: pulumi.ResourceOptions) -> None:
        parts = lease_parts(spec)
        super().__init__("lessor:lease:Lease", name, None, opts)
        inside = pulumi.ResourceOptions(parent=self)
        home = Namespace(name, parts.namespace, inside)
        isolation = Isolation(name, (*parts.credentials, *parts.policies), home=home, opts=inside)
        for part in parts.services:
            Workload(part, home=home, after=isolation.resources, opts=inside)
            if part.services:
                Service(part, home=home, opts=inside)
        for hostname in parts.hostnames:
            Hostname(hostname, home=home, opts=inside)
        for address in parts.addresses:
            LeasedIp(address, home=home, opts=inside)
        self.register_outputs({"namespace": spec.namespace})
