"""The cluster, and how traffic enters it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from pydantic import AliasChoices, BaseModel, Field

from lease.kubernetes_names import OPTIONAL_LABEL_PATTERN
from lease.manifest import HttpOptions
from lease.spec import IngressMode
from provider.settings.kinds import (
    Addresses,
    BlockedNames,
    ClosedRanges,
    Duration,
    EdgeKind,
    Endpoints,
    Hostname,
    Labels,
    MaybeListen,
    MaybeName,
    NginxSize,
    ObjectName,
    ProofKind,
    ap,
    lessor,
)

__all__ = ["ClusterSettings"]

_HTTP_OPTIONS = frozenset(field.name for field in fields(HttpOptions))


class ClusterSettings(BaseModel, defer_build=True):
    """Cluster, ingress and network policies"""

    kubeconfig: Path | None = Field(
        None,
        validation_alias=AliasChoices("AP_KUBECONFIG", "AKASH_KUBECONFIG", "KUBECONFIG"),
        description="Kubeconfig file of the cluster, or several as kubectl takes them; the current context is used. "
        "It is read again when it changes. `lessor run` needs it, except in a pod, where it uses the pod's account.",
    )
    manifest_namespace: ObjectName = Field(
        "lease",
        min_length=1,
        max_length=63,
        validation_alias=ap("K8S_MANIFEST_NS"),
        description="Namespace of the Manifest, ProviderHost and ProviderLeasedIP objects.",
    )
    metallb_namespace: ObjectName = Field(
        "metallb-system",
        min_length=1,
        validation_alias=lessor("METALLB_NAMESPACE"),
        description="Namespace of MetalLB, where the pools of leased addresses are made.",
    )
    ingress_domain: Hostname = Field(
        "",
        validation_alias=ap("DEPLOYMENT_INGRESS_DOMAIN"),
        description="Domain below which hostnames are generated, such as `ingress.example.com`.",
    )
    ingress_static_hosts: bool = Field(
        False,
        validation_alias=ap("DEPLOYMENT_INGRESS_STATIC_HOSTS"),
        description="Generate a hostname for every HTTP service. Needs AP_DEPLOYMENT_INGRESS_DOMAIN. "
        "Off: the tenant must name a hostname.",
    )
    ingress_mode: IngressMode = Field(
        IngressMode.INGRESS,
        validation_alias=ap("INGRESS_MODE"),
        description="Objects that publish hostnames: `ingress` for Ingress, `gateway-api` for HTTPRoute.",
    )
    ingress_class: ObjectName = Field(
        "akash-ingress-class",
        min_length=1,
        validation_alias=lessor("INGRESS_CLASS"),
        description="Ingress class of tenants' Ingresses.",
    )
    gateway_name: ObjectName = Field(
        "akash-gateway",
        validation_alias=ap("GATEWAY_NAME"),
        description="Name of the Gateway that HTTPRoutes attach to, with AP_INGRESS_MODE=gateway-api.",
    )
    gateway_namespace: ObjectName = Field(
        "akash-gateway",
        validation_alias=ap("GATEWAY_NAMESPACE"),
        description="Namespace of that Gateway. Network policies let its pods in.",
    )
    proxy_buffer_size: NginxSize = Field(
        "16k",
        validation_alias=ap("PROXY_BUFFER_SIZE"),
        description="Buffer for the headers of a tenant's answer, where the manifest names none.",
    )
    edge: EdgeKind = Field(
        EdgeKind.INGRESS_NGINX,
        validation_alias=lessor("EDGE"),
        description="The ingress controller that serves Ingresses: `ingress-nginx`, `traefik` (its "
        "`kubernetesIngressNGINX`, without the buffer size) or `traefik-plain` (its `kubernetesIngress`, without any "
        "HTTP option), as tenants read. Traefik takes two Ingresses of one hostname: one migrates "
        "without a gap.",
    )
    edge_endpoint: MaybeListen = Field(
        "",
        validation_alias=lessor("EDGE_ENDPOINT"),
        description="Where the provider asks its own edge for a hostname by HTTP, such as `10.96.0.80:80`. Empty: a "
        "migration of a hostname does not wait for an answer of the edge.",
    )
    edge_tls_endpoint: MaybeListen = Field(
        "",
        validation_alias=lessor("EDGE_TLS_ENDPOINT"),
        description="The same by HTTPS, for the check of certificates. Empty: certificates are not checked.",
    )
    edge_addresses: Addresses = Field(
        (),
        validation_alias=lessor("EDGE_ADDRESSES"),
        description="Addresses at which clients reach the edge. A tenant's hostname should resolve to one of them. "
        "Empty: the DNS entries of hostnames are not checked.",
    )
    edge_namespace: str = Field(
        "",
        pattern=OPTIONAL_LABEL_PATTERN,
        validation_alias=lessor("EDGE_NAMESPACE"),
        description="Namespace of an ingress controller that is not Ingress-NGINX, such as Traefik. "
        "Network policies let its pods in.",
    )
    edge_labels: Labels = Field(
        (),
        validation_alias=lessor("EDGE_LABELS"),
        description="Labels that pods in LESSOR_EDGE_NAMESPACE must have to be let in. Empty: all pods there.",
    )
    node_dns: Addresses = Field(
        (),
        validation_alias=lessor("NODE_DNS"),
        description="Addresses of the DNS cache on the nodes, such as `169.254.25.10`. "
        "Tenants' pods may reach port 53 there; the rest of 169.254.0.0/16 stays closed.",
    )
    closed_ranges: ClosedRanges = Field(
        (),
        validation_alias=lessor("CLOSED_RANGES"),
        description="More networks that tenants' pods may not reach. "
        "Private, link-local and carrier-grade NAT networks are always closed.",
    )
    public_hostname: Hostname = Field(
        "",
        validation_alias=ap("CLUSTER_PUBLIC_HOSTNAME"),
        description="Public hostname of the provider, for its certificate, its status and forwarded ports.",
    )
    blocked_hostnames: BlockedNames = Field(
        (),
        validation_alias=ap("DEPLOYMENT_BLOCKED_HOSTNAMES"),
        description="Hostnames that no tenant may use. `a.com` blocks one name, `.b.com` a domain. The public "
        "hostname, the ingress domain with all names below it, and single labels are always blocked.",
    )
    hostname_cooldown: Duration = Field(
        3600,
        validation_alias=lessor("HOSTNAME_COOLDOWN"),
        description="How long after its release no other tenant may take a hostname: DNS entries and clients may still "
        "lead here. 0: not at all.",
    )
    wildcard_hostnames: bool = Field(
        False,
        validation_alias=lessor("WILDCARD_HOSTNAMES"),
        description="Tenants may claim hostnames such as `*.example.com`, of a domain of at least two labels. A "
        "wildcard takes every name below it from other tenants. The Go provider and its clients refuse such hostnames.",
    )
    hostname_proof: ProofKind = Field(
        ProofKind.OFF,
        validation_alias=lessor("HOSTNAME_PROOF"),
        description="How a tenant proves that it owns a hostname before it gets it: `dns` by a TXT record of "
        "`_akash-owner.HOSTNAME`, `http` by a line of `http://HOSTNAME/.well-known/akash-owner`, `either`, or `off`. "
        "The text is the tenant's account. A wildcard is proved by DNS only.",
    )
    network_policies: bool = Field(
        True,
        validation_alias=ap("DEPLOYMENT_NETWORK_POLICIES_ENABLED"),
        description="Isolate tenants by network policies. Off: tenants' pods reach each other and the cluster.",
    )
    api_server_endpoints: Endpoints = Field(
        (),
        validation_alias=lessor("API_SERVER_ENDPOINTS"),
        description="Endpoints of the API server that network policies open where a service asks for it. "
        "Empty: those of the Service `default/kubernetes`.",
    )
    pull_secret: MaybeName = Field(
        "",
        validation_alias=ap("DOCKER_IMAGE_PULL_SECRETS_NAME"),
        description="Name of an image pull Secret that is added to every pod.",
    )
    runtime_class: MaybeName = Field(
        "",
        validation_alias=ap("DEPLOYMENT_RUNTIME_CLASS"),
        description="Runtime class of services without an NVIDIA card, such as `gvisor`. "
        "Empty or `none`: the cluster's default.",
    )
    user_namespaces: bool = Field(
        False,
        validation_alias=lessor("USER_NAMESPACES"),
        description="Run services without a GPU in a user namespace of their own, so that root in a pod is no user of "
        "the node. Nodes need Linux 6.3, containerd 2 and Kubernetes 1.33.",
    )

    @property
    def routes_overlap(self) -> bool:
        """Whether the edge takes two routes of one hostname."""
        return self.ingress_mode is IngressMode.GATEWAY_API or self.edge is not EdgeKind.INGRESS_NGINX

    @property
    def ignored_options(self) -> frozenset[str]:
        """Names of the tenants' HTTP options that the edge does not apply. No edge reads an HTTPRoute's annotations
        (decision 43).
        """
        if self.ingress_mode is IngressMode.GATEWAY_API or self.edge is EdgeKind.TRAEFIK_PLAIN:
            return _HTTP_OPTIONS
        return frozenset({"proxy_buffer_size"} if self.edge is EdgeKind.TRAEFIK else ())
