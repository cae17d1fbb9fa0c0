"""Software that the operator must have installed before: MetalLB's custom resources, where addresses are leased.

The module asks the cluster directly, because Pulumi's error for a missing object does not say what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import yaml
from lightkube import ApiError, Client
from lightkube.config.kubeconfig import KubeConfig
from lightkube.core.exceptions import ConfigError as KubeConfigError
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition

from stacks.cluster.settings import ConfigError

__all__ = ["METALLB_CRDS", "cluster_client", "require_metallb"]

METALLB_CRDS = ("ipaddresspools.metallb.io", "l2advertisements.metallb.io")
SECONDS = 10


def cluster_client(config: Mapping[str, Any]) -> Client:
    """A client for the cluster that Pulumi would use: `kubernetes:kubeconfig` (text or path), else KUBECONFIG."""
    text, context = config.get("kubernetes:kubeconfig"), config.get("kubernetes:context")
    try:
        if not text:
            found = KubeConfig.from_env()
        elif "\n" in text or text.lstrip().startswith("{"):
            found = KubeConfig.from_dict(yaml.safe_load(text))
        else:
            found = KubeConfig.from_file(Path(text).expanduser())
        return Client(found.get(context), timeout=httpx2.Timeout(SECONDS))
    except (KubeConfigError, OSError, yaml.YAMLError, AttributeError, TypeError, ValueError, LookupError) as error:
        raise ConfigError(
            f"no usable kubeconfig ({type(error).__name__}: {error}); set KUBECONFIG or kubernetes:kubeconfig"
        ) from None


def require_metallb(client: Client) -> None:
    """Raise `ConfigError` with what is missing and what to do."""
    try:
        missing = [name for name in METALLB_CRDS if not _exists(client, name)]
    except (ApiError, httpx2.HTTPError) as error:
        raise ConfigError(
            f"the API server at {client.config.cluster.server} could not be asked about MetalLB: {error}"
        ) from None
    if missing:
        raise ConfigError(
            f"the cluster lacks {' and '.join(missing)}: install MetalLB first, which leased IPs need, or set "
            "lessor:metallb.required to false if you lease no addresses "
            "(pulumi config set --path 'lessor:metallb.required' false)"
        )


def _exists(client: Client, name: str) -> bool:
    try:
        client.get(CustomResourceDefinition, name)
    except ApiError as error:
        if error.status.code == 404:
            return False
        raise
    return True
