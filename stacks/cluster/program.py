"""The cluster stack: custom resources, namespaces, rights, the ingress class (kubernetes-objects.md §8.3).

CRDs and the manifest namespace stay when the stack is destroyed: every lease can be rebuilt from them
(docs/architecture.md §2 rule 3). The next `up` takes them over again.
"""

from __future__ import annotations

from contextlib import closing

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

from lease.spec import IngressMode
from stacks.cluster.admission import NAME, policy_binding, policy_spec
from stacks.cluster.classes import label_storage_classes, make_priority_class, make_runtime_classes
from stacks.cluster.crds import CRDS, GROUP, VERSION, definition
from stacks.cluster.fences import close, open_discovery, open_ports
from stacks.cluster.inventory_admission import NODE_POLICY, node_policy_spec
from stacks.cluster.operators import operators
from stacks.cluster.processes import environment, provider
from stacks.cluster.requirements import cluster_client, require_metallb
from stacks.cluster.rights import bind
from stacks.cluster.settings import ClusterStackSettings
from stacks.cluster.workloads import Place, run_process

__all__ = ["cluster"]

LABELS = {"akash.network": "true", "app.kubernetes.io/managed-by": "lessor"}


def cluster(settings: ClusterStackSettings) -> None:
    """Register everything and export the settings of `lessor run`. Raises `ConfigError` where the cluster lacks
    something.
    """
    if settings.metallb.required:
        with closing(cluster_client(pulumi.runtime.config.CONFIG.get())) as client:
            require_metallb(client)
    _custom_resources()
    services = _namespaces(settings)
    _rights(settings, services)
    if settings.admission_policy:
        _admission(settings)
    if settings.ingress_mode is IngressMode.INGRESS:
        _ingress_class(settings)
    _classes(settings)
    if settings.network_policies:
        options = ResourceOptions(depends_on=[services], deleted_with=services)
        close(settings.services_namespace, labels=LABELS, opts=options)
    if settings.processes.image:
        _processes(settings, services)
    _outputs(settings)


def _meta(name: str, *, namespace: str | None = None, keep: bool = False) -> ObjectMetaArgs:
    annotations = {"helm.sh/resource-policy": "keep"} if keep else None
    return ObjectMetaArgs(name=name, namespace=namespace, labels=LABELS, annotations=annotations)


def _custom_resources() -> None:
    for plural in CRDS:
        name, spec = definition(plural)
        options = ResourceOptions(retain_on_delete=True)
        CustomResourceDefinition(plural, metadata=_meta(name, keep=True), spec=spec, opts=options)


def _namespaces(settings: ClusterStackSettings) -> Namespace:
    """The manifest namespace, which stays, and the namespace of the provider's own processes, which is returned."""
    manifests = settings.manifest_namespace
    Namespace("manifests", metadata=_meta(manifests), opts=ResourceOptions(retain_on_delete=True))
    return Namespace("services", metadata=_meta(settings.services_namespace))


def _rights(settings: ClusterStackSettings, namespace: Namespace) -> None:
    account, place = settings.service_account, settings.services_namespace
    options = ResourceOptions(depends_on=[namespace], deleted_with=namespace)
    ServiceAccount("provider", metadata=_meta(account, namespace=place), opts=options)
    subject = SubjectArgs(kind="ServiceAccount", name=account, namespace=place)
    grants = provider(settings).grants
    bind(grants, name="lessor-provider", subject=subject, labels=LABELS, opts=options, resource="provider")


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
    )


def _classes(settings: ClusterStackSettings) -> None:
    label_storage_classes(settings.storage_classes)
    make_runtime_classes(settings.runtime_classes, LABELS)
    if settings.priority_class:
        make_priority_class(settings.priority_class, LABELS)


def _processes(settings: ClusterStackSettings, namespace: Namespace) -> None:
    if settings.admission_policy and settings.processes.inventory:
        _node_admission(settings)
    place = Place(settings, LABELS, after=namespace, priority_class=settings.priority_class)
    for process in (provider(settings), *operators(settings)):
        run_process(place, process)
        if settings.network_policies:
            open_ports(process, namespace=settings.services_namespace, labels=LABELS, opts=place.options)
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
