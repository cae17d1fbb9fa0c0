"""HTTP clients for the API server of a kubeconfig: what httpx needs of it, credentials included.

Other packages may import the names below.
"""

from __future__ import annotations

from stacks.kube.connection import Connection, connect

__all__ = ["Connection", "connect"]
