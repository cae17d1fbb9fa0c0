"""The cluster and the way into it."""

from __future__ import annotations

from pathlib import Path

from pydantic import AliasChoices, BaseModel, Field

from lease.spec import IngressMode
from provider.settings.kinds import (
    Addresses,
    BlockedNames,
    ClosedRanges,
    Endpoints,
    Hostname,
    Labels,
    MaybeName,
    NginxSize,
    ObjectName,
    ap,
    ours,
)

__all__ = ["ClusterSettings"]


class ClusterSettings(BaseModel):
    kubeconfig: Path | None = Field(
        None, validation_alias=AliasChoices("AP_KUBECONFIG", "AKASH_KUBECONFIG", "KUBECONFIG")
    )
    manifest_namespace: ObjectName = Field("lease", min_length=1, max_length=63, validation_alias=ap("K8S_MANIFEST_NS"))
    metallb_namespace: ObjectName = Field("metallb-system", min_length=1, validation_alias=ours("METALLB_NAMESPACE"))
    ingress_domain: Hostname = Field("", validation_alias=ap("DEPLOYMENT_INGRESS_DOMAIN"))
    ingress_static_hosts: bool = Field(False, validation_alias=ap("DEPLOYMENT_INGRESS_STATIC_HOSTS"))
    ingress_mode: IngressMode = Field(IngressMode.INGRESS, validation_alias=ap("INGRESS_MODE"))
    ingress_class: ObjectName = Field("akash-ingress-class", min_length=1, validation_alias=ours("INGRESS_CLASS"))
    gateway_name: ObjectName = Field("akash-gateway", validation_alias=ap("GATEWAY_NAME"))
    gateway_namespace: ObjectName = Field("akash-gateway", validation_alias=ap("GATEWAY_NAMESPACE"))
    proxy_buffer_size: NginxSize = Field("16k", validation_alias=ap("PROXY_BUFFER_SIZE"))
    edge_namespace: str = Field(
        "",
        pattern="^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$",
        validation_alias=ours("EDGE_NAMESPACE"),
        description="of an edge that policies must let in, such as Traefik's; Ingress-NGINX and the gateway's are",
    )
    edge_labels: Labels = Field(
        (), validation_alias=ours("EDGE_LABELS"), description="of its pods, key=value[,…]; empty: all of its namespace"
    )
    node_dns: Addresses = Field(
        (), validation_alias=ours("NODE_DNS"), description="addresses of a DNS cache on the nodes, 169.254.25.10"
    )
    closed_ranges: ClosedRanges = Field(
        (), validation_alias=ours("CLOSED_RANGES"), description="more IPv4 networks that no tenant may reach"
    )
    public_hostname: Hostname = Field("", validation_alias=ap("CLUSTER_PUBLIC_HOSTNAME"))
    blocked_hostnames: BlockedNames = Field(
        (), validation_alias=ap("DEPLOYMENT_BLOCKED_HOSTNAMES"), description="a.com is one name, .b.com a domain"
    )
    network_policies: bool = Field(True, validation_alias=ap("DEPLOYMENT_NETWORK_POLICIES_ENABLED"))
    api_server_endpoints: Endpoints = Field(
        (), validation_alias=ours("API_SERVER_ENDPOINTS"), description="address:port, for network policies"
    )
    pull_secret: MaybeName = Field("", validation_alias=ap("DOCKER_IMAGE_PULL_SECRETS_NAME"))
    runtime_class: MaybeName = Field(
        "",
        validation_alias=ap("DEPLOYMENT_RUNTIME_CLASS"),
        description="of services without an NVIDIA card, such as gvisor; empty or none: the cluster's own",
    )
