"""The cluster stack: custom resources, namespaces, rights, classes, the edge (kubernetes-objects.md §8.3).

What leases need stays when the stack is destroyed, unless `keep-leases` is false: they run on, and every lease can be
rebuilt from the records (docs/architecture.md §2 rule 3). The next `up` takes all of it over again.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pulumi
from pulumi import ResourceOptions
from pulumi_kubernetes.admissionregistration.v1 import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpecArgs,
)
from pulumi_kubernetes.apiextensions.v1 import CustomResourceDefinition
from pulumi_kubernetes.core.v1 import Namespace, ServiceAccount
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs
from pulumi_kubernetes.networking.v1 import IngressClass, IngressClassSpecArgs
from pulumi_kubernetes.rbac.v1 import SubjectArgs

from components.resources.manifest import ManifestResource
from lease.spec import IngressMode
from stacks.cluster import metallb
from stacks.cluster.admission import NAME, policy_binding, policy_spec
from stacks.cluster.challenges import challenge_route, orders_certificate
from stacks.cluster.classes import label_storage_classes, make_priority_class, make_runtime_classes
from stacks.cluster.crds import CRDS, GROUP, VERSION, definition
from stacks.cluster.fences import close, open_discovery, open_ports
from stacks.cluster.gateway import gateway_objects
from stacks.cluster.inventory_admission import NODE_POLICY, node_policy_spec
from stacks.cluster.operators import operators
from stacks.cluster.processes import environment, provider
from stacks.cluster.requirements import cluster_client, needed_definitions, require
from stacks.cluster.rights import bind
from stacks.cluster.settings import TAKEN_OVER, ClusterStackSettings
from stacks.cluster.workloads import Place, run_process

__all__ = ["cluster"]

_FOREIGN = {"app.kubernetes.io/managed-by": "lessor"}
"""Of software that is not Lessor's own: a namespace with `akash.network` may attach routes to the Gateway."""
LABELS = {"akash.network": "true", **_FOREIGN}


def cluster(settings: ClusterStackSettings) -> None:
    """Register everything and export the settings of `lessor run`. Raises `ConfigError` where the cluster lacks
    something.
    """
    if needed := needed_definitions(settings):
        with closing(cluster_client(pulumi.runtime.config.CONFIG.get())) as client:
            require(client, needed)
    _custom_resources(settings)
    services = _namespaces(settings)
    account = _rights(settings, services)
    if settings.admission_policy:
        _admission(settings)
    if settings.ingress_mode is IngressMode.INGRESS:
        _ingress_class(settings)
    _edges(settings)
    _classes(settings)
    if settings.network_policies:
        _close(settings, services)
    if settings.processes.image:
        _processes(settings, services, account)
    _outputs(settings)


def _meta(name: str, *, namespace: str | None = None, keep: bool = False) -> ObjectMetaArgs:
    annotations = {**TAKEN_OVER, **({"helm.sh/resource-policy": "keep"} if keep else {})}
    return ObjectMetaArgs(name=name, namespace=namespace, labels=LABELS, annotations=annotations)


def _retention(settings: ClusterStackSettings) -> ResourceOptions:
    """Of what tenants' leases need while the provider is away."""
    return ResourceOptions(retain_on_delete=settings.keep_leases)


def _custom_resources(settings: ClusterStackSettings) -> None:
    for plural in CRDS:
        name, spec = definition(plural)
        CustomResourceDefinition(plural, metadata=_meta(name, keep=True), spec=spec, opts=_retention(settings))


def _namespaces(settings: ClusterStackSettings) -> Namespace:
    """The manifest namespace, which stays, and the namespace of the provider's own processes, which is returned."""
    manifests = settings.manifest_namespace
    Namespace("manifests", metadata=_meta(manifests), opts=_retention(settings))
    return Namespace("services", metadata=_meta(settings.services_namespace))


def _rights(settings: ClusterStackSettings, namespace: Namespace) -> ServiceAccount:
    """The provider's account with its rights."""
    account, place = settings.service_account, settings.services_namespace
    options = ResourceOptions(depends_on=[namespace], deleted_with=namespace)
    made = ServiceAccount("provider", metadata=_meta(account, namespace=place), opts=options)
    subject = SubjectArgs(kind="ServiceAccount", name=account, namespace=place)
    grants = provider(settings).grants
    bind(grants, name="lessor-provider", subject=subject, labels=LABELS, opts=options, resource="provider")
    return made


def _admission(settings: ClusterStackSettings) -> None:
    policy = ValidatingAdmissionPolicy("provider", metadata=_meta(NAME), spec=policy_spec(settings))
    options = ResourceOptions(depends_on=[policy])
    ValidatingAdmissionPolicyBinding("provider", metadata=_meta(NAME), spec=policy_binding(), opts=options)


def _node_admission(settings: ClusterStackSettings) -> None:
    privileged = settings.processes.privileged_discovery
    spec = node_policy_spec(settings.services_namespace, privileged=privileged)
    policy = ValidatingAdmissionPolicy("inventory", metadata=_meta(NODE_POLICY), spec=spec)
    binding = ValidatingAdmissionPolicyBindingSpecArgs(policy_name=NODE_POLICY, validation_actions=["Deny"])
    options = ResourceOptions(depends_on=[policy])
    ValidatingAdmissionPolicyBinding("inventory", metadata=_meta(NODE_POLICY), spec=binding, opts=options)


def _ingress_class(settings: ClusterStackSettings) -> None:
    IngressClass(
        "ingress",
        metadata=_meta(settings.ingress_class),
        spec=IngressClassSpecArgs(controller=settings.ingress_controller),
        opts=_retention(settings),
    )


def _edges(settings: ClusterStackSettings) -> None:
    """MetalLB and the Gateway, by setting. Both serve leases, and stay with them."""
    if settings.metallb.install:
        place = _plain_namespace("metallb", settings.metallb.namespace, settings)
        options = ResourceOptions.merge(_retention(settings), ResourceOptions(depends_on=[place]))
        _metallb(settings, options)
    if settings.gateway.create:
        place = _plain_namespace("gateway", settings.gateway.namespace, settings)
        options = ResourceOptions.merge(_retention(settings), ResourceOptions(depends_on=[place]))
        for made in gateway_objects(settings.gateway):
            ManifestResource(_labelled(made), options)


def _plain_namespace(resource: str, name: str, settings: ClusterStackSettings) -> Namespace:
    return Namespace(
        resource, metadata=ObjectMetaArgs(name=name, labels=_FOREIGN, annotations=TAKEN_OVER), opts=_retention(settings)
    )


def _metallb(settings: ClusterStackSettings, options: ResourceOptions) -> None:
    namespace = settings.metallb.namespace
    for made in metallb.definitions():
        ManifestResource(_labelled(made), _retention(settings))
    for name, grants in metallb.grants(namespace).items():
        ServiceAccount(f"metallb-{name}", metadata=_meta(name, namespace=namespace), opts=options)
        subject = SubjectArgs(kind="ServiceAccount", name=name, namespace=namespace)
        bind(grants, name=f"metallb-{name}", subject=subject, labels=LABELS, opts=options)
    for made in metallb.workloads(settings.metallb):
        ManifestResource(_labelled(made), options)


def _labelled(made: dict[str, Any]) -> dict[str, Any]:
    meta = made["metadata"]
    return {**made, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), **_FOREIGN}}}


def _close(settings: ClusterStackSettings, services: Namespace) -> None:
    """Close every namespace of the stack in which nothing serves everybody."""
    within = ResourceOptions(depends_on=[services], deleted_with=services)
    close(settings.services_namespace, labels=LABELS, opts=within)
    close(settings.manifest_namespace, labels=LABELS, opts=_retention(settings), both=True)
    if settings.metallb.install:
        close(settings.metallb.namespace, labels=LABELS, opts=_retention(settings))


def _classes(settings: ClusterStackSettings) -> None:
    label_storage_classes(settings.storage_classes)
    make_runtime_classes(settings.runtime_classes, LABELS, opts=_retention(settings))
    if settings.priority_class:
        make_priority_class(settings.priority_class, LABELS)


def _processes(settings: ClusterStackSettings, namespace: Namespace, account: ServiceAccount) -> None:
    if settings.admission_policy and settings.processes.inventory:
        _node_admission(settings)
    place = Place(settings, LABELS, namespace, provider_account=account, priority_class=settings.priority_class)
    for process in (provider(settings), *operators(settings)):
        run_process(place, process)
        if settings.network_policies:
            open_ports(process, namespace=settings.services_namespace, labels=LABELS, opts=place.options)
    if orders_certificate(settings):
        route = challenge_route(settings, provider(settings).name)
        ManifestResource(_labelled(route), place.options)
    if settings.network_policies and settings.processes.inventory:
        open_discovery(settings.services_namespace, labels=LABELS, opts=place.options)


def _outputs(settings: ClusterStackSettings) -> None:
    """Export names; `lessor run` takes them as settings."""
    pulumi.export("manifest-namespace", settings.manifest_namespace)
    pulumi.export("services-namespace", settings.services_namespace)
    pulumi.export("service-account", settings.service_account)
    pulumi.export("ingress-mode", settings.ingress_mode.value)
    pulumi.export("ingress-class", settings.ingress_class if settings.ingress_mode is IngressMode.INGRESS else "")
    pulumi.export("metallb-namespace", settings.metallb.namespace if settings.metallb.required else "")
    pulumi.export("crd-version", f"{GROUP}/{VERSION}")
    pulumi.export("environment", environment(settings))
