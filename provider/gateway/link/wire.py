"""What goes over the socket between the provider and its gateway process: one JSON document a line (decision 39).

The gateway sends `{"id": 1, "call": "manifest", "with": {…}}`, the provider answers `{"id": 1, "result": …}` or
`{"id": 1, "error": {…}}` in any order, and sends `{"facts": {…}}` at the start and whenever a fact changes. Both sides
are of one user.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from provider.claims.hostnames import HostnameRefusedError
from provider.errors import ChainError, ClusterError, MarketError, ProviderError
from provider.gateway.errors import AuthError, RequestError
from provider.lifecycle.lease_claims import NotTransferredError

__all__ = [
    "FORM",
    "LONGEST",
    "LONGEST_OF_PROVIDER",
    "Facts",
    "error_document",
    "gateway_socket",
    "is_own_user",
    "raised_error",
]

FORM = 1
"""The number of this form of the documents: a gateway of another form is not served."""
LONGEST = 4 << 20
"""Bytes of a line of the gateway: a manifest of 2 MiB in base64, and the rest."""
LONGEST_OF_PROVIDER = 64 << 20
"""Bytes of a line of the provider: facts and the status grow with the leases, the tenants and the nodes."""
_UNKNOWN = "the provider had an internal error"


class Facts(BaseModel):
    """What the gateway keeps of the provider's knowledge. `provider`: the account. `certificate` and `key`: the account
    certificate and its private key, PEM. `tenants`: the accounts with a lease or an order here. `troubles`: for a lease
    as text, why its newest manifest does not run.
    """

    model_config = ConfigDict(frozen=True)

    form: int = FORM
    provider: str
    chain_id: str
    certificate: str
    key: str = Field(repr=False)
    tenants: frozenset[str] = frozenset()
    troubles: Mapping[str, str] = Field(default_factory=dict)


def gateway_socket(home: Path) -> Path:
    """The path of the socket."""
    return home / "gateway.sock"


def is_own_user(connection: socket.socket) -> bool:
    """Whether the process at the other end runs as the user of this process."""
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(user == os.geteuid())


def error_document(error: Exception) -> dict[str, Any]:
    """An error of a call, for `raised_error` at the other end."""
    match error:
        case AuthError() | RequestError():
            kind = "credentials" if isinstance(error, AuthError) else "request"
            return {"kind": kind, "status": error.status, "text": error.text, "retry_after_s": error.retry_after_s}
        case ChainError():
            return {"kind": "chain", "address": error.address, "text": error.problem}
        case ClusterError():
            return _cluster_document(error)
        case HostnameRefusedError():
            return {"kind": "hostname", "text": str(error)}
        case NotTransferredError():
            return {"kind": "claim", "text": error.name, "cause": _cluster_document(error.error)}
        case ProviderError():
            return {"kind": "market", "text": str(error)}
        case _:
            return {"kind": "internal", "text": _UNKNOWN}


def _cluster_document(error: ClusterError) -> dict[str, Any]:
    return {"kind": "cluster", "address": error.address, "text": error.problem, "status": error.status}


def raised_error(document: Mapping[str, Any]) -> Exception:
    """The error that `error_document` has described."""
    text = str(document.get("text", ""))
    match document.get("kind"):
        case "request":
            return RequestError(document["status"], text, retry_after_s=document["retry_after_s"])
        case "credentials":
            return AuthError(document["status"], text, retry_after_s=document["retry_after_s"])
        case "chain":
            return ChainError(document["address"], text)
        case "cluster":
            return _cluster_error(document)
        case "hostname":
            return HostnameRefusedError(text)
        case "claim":
            return NotTransferredError(text, _cluster_error(document["cause"]))
        case "market":
            return MarketError(text)
        case _:
            return RuntimeError(text or _UNKNOWN)


def _cluster_error(document: Mapping[str, Any]) -> ClusterError:
    return ClusterError(document["address"], document["text"], status=document["status"])
