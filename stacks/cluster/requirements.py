"""Software that the operator must have installed before: the custom resources of MetalLB and of the Gateway API.

The module asks the cluster directly, because Pulumi's error for a missing object does not say what to do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import yaml

from stacks.cluster.settings import ClusterStackSettings, ConfigError
from stacks.common.errors import EngineError
from stacks.common.kubeconfig import read_kubeconfig
from stacks.kube import connect

__all__ = ["METALLB_CRDS", "cluster_client", "needed_definitions", "require"]

METALLB_CRDS = ("ipaddresspools.metallb.io", "l2advertisements.metallb.io")
_METALLB = (
    "install MetalLB first, which leased IPs need, or let the stack do it (pulumi config set --path "
    "'lessor:metallb.install' true), or set lessor:metallb.required to false if you lease no addresses "
    "(pulumi config set --path 'lessor:metallb.required' false)"
)
_GATEWAY = "install the Gateway API first, or set lessor:ingress-mode to ingress"
_NGINX = "install NGINX Gateway Fabric first, or set lessor:gateway.nginx-policies to false"
SECONDS = 10
_CRDS = "apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def cluster_client(config: Mapping[str, Any]) -> httpx2.Client:
    """A client for the cluster that Pulumi would use: `kubernetes:kubeconfig` (text or path), else KUBECONFIG, else the
    user's own file.
    """
    text, context = config.get("kubernetes:kubeconfig"), config.get("kubernetes:context")
    try:
        if text and ("\n" in text or text.lstrip().startswith("{")):
            document = yaml.safe_load(text)
        else:
            document = read_kubeconfig(Path(text or os.environ.get("KUBECONFIG") or "~/.kube/config"))
        return httpx2.Client(**connect(document, context or "").arguments(), timeout=httpx2.Timeout(SECONDS))
    except (EngineError, yaml.YAMLError, AttributeError) as error:
        raise ConfigError(
            f"no usable kubeconfig ({type(error).__name__}: {error}); set KUBECONFIG or kubernetes:kubeconfig"
        ) from None


def needed_definitions(settings: ClusterStackSettings) -> dict[str, str]:
    """The custom resources that the stack uses and does not bring, each with what to do without it."""
    found: dict[str, str] = {}
    if settings.metallb.required and not settings.metallb.install:
        found |= dict.fromkeys(METALLB_CRDS, _METALLB)
    if settings.gateway.create:
        found |= dict.fromkeys(("gateways.gateway.networking.k8s.io", "httproutes.gateway.networking.k8s.io"), _GATEWAY)
    if settings.gateway.create and settings.gateway.nginx_policies:
        found["clientsettingspolicies.gateway.nginx.org"] = _NGINX
    return found


def require(client: httpx2.Client, needed: Mapping[str, str]) -> None:
    """Raise `ConfigError` with all that is missing. `needed`: names of custom resources, each with its remedy."""
    try:
        missing = [name for name in needed if not _exists(client, name)]
    except httpx2.HTTPError as error:
        raise ConfigError(
            f"the API server at {client.base_url} could not be asked about custom resources: {error}"
        ) from None
    remedies = {needed[name]: [one for one in missing if needed[one] == needed[name]] for name in missing}
    if remedies:
        raise ConfigError("\n".join(f"the cluster lacks {' and '.join(n)}: {do}" for do, n in remedies.items()))


def _exists(client: httpx2.Client, name: str) -> bool:
    answer = client.get(f"{_CRDS}/{name}")
    if answer.status_code == 404:
        return False
    answer.raise_for_status()
    return True
