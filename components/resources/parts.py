"""Component resources of a lease, one for each aspect that an operator looks for: isolation, workload, access.

None registers outputs: they would be empty, and each costs a call to the engine and an event.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from components.labels import Object
from components.parts import AddressPart, ServicePart
from components.resources.manifest import ManifestResource

__all__ = ["Hostname", "Isolation", "KubernetesServices", "LeasedIp", "Namespace", "Workload"]


class Namespace(pulumi.ComponentResource):
    """The namespace of a lease. All other objects depend on `resource` and are deleted with it."""

    def __init__(self, name: str, manifest: Object, opts: pulumi.ResourceOptions) -> None:
        super().__init__("lessor:lease:Namespace", name, None, opts)
        self.resource = ManifestResource(manifest, pulumi.ResourceOptions(parent=self))


class Isolation(pulumi.ComponentResource):
    """Pull secrets, bounds and network policies: the objects that must exist before the first pod. Pods depend on
    `resources`.
    """

    def __init__(
        self, name: str, manifests: Sequence[Object], *, home: Namespace, opts: pulumi.ResourceOptions
    ) -> None:
        super().__init__("lessor:lease:Isolation", name, None, opts)
        self._made: dict[tuple[str, str], ManifestResource] = {}
        self.resources: list[ManifestResource] = []
        self.add(manifests, home=home)

    def add(self, manifests: Sequence[Object], *, home: Namespace) -> None:
        """Register all of `manifests`, in their order; an object that is registered already is not registered again."""
        for manifest in manifests:
            key = (manifest["kind"], manifest["metadata"]["name"])
            if key not in self._made:
                self._made[key] = ManifestResource(manifest, _inside(home, self))
        self.resources = [self._made[item["kind"], item["metadata"]["name"]] for item in manifests]


class Workload(pulumi.ComponentResource):
    """The workload of one service, after its rights and everything in `after`."""

    def __init__(
        self, part: ServicePart, *, home: Namespace, after: Sequence[pulumi.Resource], opts: pulumi.ResourceOptions
    ) -> None:
        super().__init__("lessor:lease:Workload", part.name, None, opts)
        access = [ManifestResource(manifest, _inside(home, self)) for manifest in part.access]
        self.resource = ManifestResource(part.workload, _inside(home, self, (*after, *access)))


class KubernetesServices(pulumi.ComponentResource):
    """The Kubernetes Services of one service, inside the cluster and on node ports."""

    def __init__(self, part: ServicePart, *, home: Namespace, opts: pulumi.ResourceOptions) -> None:
        super().__init__("lessor:lease:Service", part.name, None, opts)
        self.resources = [ManifestResource(manifest, _inside(home, self)) for manifest in part.services]


class Hostname(pulumi.ComponentResource):
    """One hostname on the shared HTTP edge."""

    def __init__(self, manifest: Object, *, home: Namespace, opts: pulumi.ResourceOptions) -> None:
        name = manifest["metadata"]["name"]
        super().__init__("lessor:lease:Hostname", name, None, opts)
        self.resource = ManifestResource(manifest, _inside(home, self))


class LeasedIp(pulumi.ComponentResource):
    """One leased address and this lease's Services on it.

    Pool and advertisement belong to every lease that shares the address, so that a stack which ends leaves them. The
    LoadBalancer Services are deleted one by one, before the namespace: only then is the address free when they are
    gone.

    All else of the lease is in `after` and comes first: MetalLB judges pools by a webhook of its own, and while that is
    away a failed pool would end the update before the workloads exist.
    """

    def __init__(
        self, part: AddressPart, *, home: Namespace, after: Sequence[pulumi.Resource], opts: pulumi.ResourceOptions
    ) -> None:
        super().__init__("lessor:lease:LeasedIp", part.sharing_key, None, opts)
        kept = pulumi.ResourceOptions(parent=self, depends_on=[*after], retain_on_delete=True)
        shared = [ManifestResource(manifest, kept) for manifest in part.shared]
        own = pulumi.ResourceOptions(parent=self, depends_on=[home.resource, *shared])
        self.resources = [ManifestResource(manifest, own) for manifest in part.services]


def _inside(home: Namespace, parent: pulumi.Resource, after: Sequence[pulumi.Resource] = ()) -> pulumi.ResourceOptions:
    """Options of an object in the lease's namespace: made after the namespace (and after `after`), deleted with it."""
    return pulumi.ResourceOptions(parent=parent, depends_on=[home.resource, *after], deleted_with=home.resource)
