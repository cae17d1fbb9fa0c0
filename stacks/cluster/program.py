"""The cluster stack: custom resources, namespaces, rights, the ingress class (kubernetes-objects.md §8.3).

CRDs and the manifest namespace stay when the stack is destroyed: every lease can be rebuilt from them
(docs/architecture.md §2 rule 3). The next `up` takes them over again.
"""

from __future__ import annotations

from contextlib import closing

import pulumi
from pulumi import ResourceOptions
from pulumi_kubernetes.admissionregistration.v1 import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from pulumi_kubernetes.apiextensions.v1 import CustomResourceDefinition
from pulumi_kubernetes.core.v1 import Namespace, ServiceAccount
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs
from pulumi_kubernetes.networking.v1 import IngressClass, IngressClassSpecArgs
from pulumi_kubernetes.rbac.v1 import ClusterRole, ClusterRoleBinding, RoleRefArgs, SubjectArgs

from lease.spec import IngressMode
from stacks.cluster.admission import NAME, policy_binding, policy_spec
from stacks.cluster.crds import CRDS, GROUP, VERSION, definition
from stacks.cluster.rbac import provider_rules
from stacks.cluster.requirements import cluster_client, require_metallb
from stacks.cluster.settings import ClusterStackSettings

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
    account, role = settings.service_account, "lessor-provider"
    options = ResourceOptions(depends_on=[namespace], deleted_with=namespace)
    ServiceAccount("provider", metadata=_meta(account, namespace=settings.services_namespace), opts=options)
    ClusterRole("provider", metadata=_meta(role), rules=provider_rules())
    ClusterRoleBinding(
        "provider",
        metadata=_meta(role),
        role_ref=RoleRefArgs(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name=role),
        subjects=[SubjectArgs(kind="ServiceAccount", name=account, namespace=settings.services_namespace)],
    )


def _admission(settings: ClusterStackSettings) -> None:
    policy = ValidatingAdmissionPolicy("provider", metadata=_meta(NAME), spec=policy_spec(settings))
    options = ResourceOptions(depends_on=[policy])
    ValidatingAdmissionPolicyBinding("provider", metadata=_meta(NAME), spec=policy_binding(), opts=options)


def _ingress_class(settings: ClusterStackSettings) -> None:
    IngressClass(
        "ingress",
        metadata=_meta(settings.ingress_class),
        spec=IngressClassSpecArgs(controller=settings.ingress_controller),
    )


def _outputs(settings: ClusterStackSettings) -> None:
    """Export names; `lessor run` takes them as settings."""
    pulumi.export("manifest-namespace", settings.manifest_namespace)
    pulumi.export("services-namespace", settings.services_namespace)
    pulumi.export("service-account", settings.service_account)
    pulumi.export("ingress-mode", settings.ingress_mode.value)
    pulumi.export("ingress-class", settings.ingress_class if settings.ingress_mode is IngressMode.INGRESS else "")
    pulumi.export("metallb-namespace", settings.metallb.namespace if settings.metallb.required else "")
    pulumi.export("crd-version", f"{GROUP}/{VERSION}")
