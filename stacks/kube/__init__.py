"""What an HTTP client for the API server of a kubeconfig needs, credentials included.

Other packages may import the names below.
"""

from __future__ import annotations

from stacks.kube.connection import Connection, connect
from stacks.kube.credentials import Credentials, CredentialsError

__all__ = ["Connection", "Credentials", "CredentialsError", "connect"]
