"""The service account of the pod in which this process runs, as a kubeconfig: for the provider itself and for Pulumi,
whose plugin takes a kubeconfig only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stacks.common import write_private

__all__ = ["in_a_pod", "place_pod_kubeconfig", "pod_kubeconfig"]

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a kubelet mounts the account. The kubelet renews the token in it, so that the token is read from the file."""
_NAME = "pod.kubeconfig"


def in_a_pod(account: Path = _ACCOUNT) -> bool:
    """Whether this process runs in a pod with a service account."""
    return (account / "token").exists()


def pod_kubeconfig(account: Path = _ACCOUNT, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """The kubeconfig of the account. The API server is the one that the kubelet names in the environment, since a name
    would need the cluster's DNS.
    """
    host, port = (environment.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
    address = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    cluster = {"server": address, "certificate-authority": str(account / "ca.crt")}
    return {
        "current-context": "pod",
        "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod"}}],
        "clusters": [{"name": "pod", "cluster": cluster}],
        "users": [{"name": "pod", "user": {"tokenFile": str(account / "token")}}],
    }


def place_pod_kubeconfig(home: Path, account: Path = _ACCOUNT, environment: Mapping[str, str] = os.environ) -> Path:
    """Write the kubeconfig of the account into `home`, unless it is there already; its file. Raises OSError."""
    file, text = home / _NAME, json.dumps(pod_kubeconfig(account, environment))
    if not file.exists() or file.read_text() != text:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(file, text)
    return file
