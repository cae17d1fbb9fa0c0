"""Software that the operator must have installed before: MetalLB's custom resources, where addresses are leased.

The module asks the cluster directly, because Pulumi's error for a missing object does not say what to do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import yaml

from stacks.cluster.settings import ConfigError
from stacks.common.errors import EngineError
from stacks.common.kubeconfig import read_kubeconfig
from stacks.kube import connect

__all__ = ["METALLB_CRDS", "cluster_client", "require_metallb"]

METALLB_CRDS = ("ipaddresspools.metallb.io", "l2advertisements.metallb.io")
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


def require_metallb(client: httpx2.Client) -> None:
    """Raise `ConfigError` with what is missing and what to do."""
    try:
        missing = [name for name in METALLB_CRDS if not _exists(client, name)]
    except httpx2.HTTPError as error:
        raise ConfigError(f"the API server at {client.base_url} could not be asked about MetalLB: {error}") from None
    if missing:
        raise ConfigError(
            f"the cluster lacks {' and '.join(missing)}: install MetalLB first, which leased IPs need, or set "
            "lessor:metallb.required to false if you lease no addresses "
            "(pulumi config set --path 'lessor:metallb.required' false)"
        )


def _exists(client: httpx2.Client, name: str) -> bool:
    answer = client.get(f"{_CRDS}/{name}")
    if answer.status_code == 404:
        return False
    answer.raise_for_status()
    return True
