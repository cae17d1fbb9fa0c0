"""A client of the Kubernetes API that takes paths and plain objects; TLS and credentials come from a kubeconfig."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2 as httpx
from lightkube.config.client_adapter import Client, ConnectionParams
from lightkube.config.kubeconfig import KubeConfig
from lightkube.core.exceptions import ConfigError

from devnet.errors import ClusterUnusable

__all__ = ["KubeApi"]

_TIMEOUT_S = 15.0
_NOT_READY = (429, 503)
"""Status codes of a busy API server, or of a new custom resource whose storage is not ready."""
_PAUSE_S = 0.5
_UNUSABLE = (AssertionError, ConfigError, httpx.InvalidURL, OSError, TypeError, ValueError)
"""What lightkube and httpx raise for a kubeconfig with wrong values; TypeError: a certificate without its key."""
_LONGEST = 500
"""The number of characters of another program's message that an error message of the devnet quotes."""
_MERGE = {"Content-Type": "application/merge-patch+json"}


class KubeApi:
    """Every method raises `ClusterUnusable` unless the answer is 2xx, or a 404 that the method expects."""

    def __init__(self, kubeconfig: Path) -> None:
        try:
            config = KubeConfig.from_file(kubeconfig).get()
            assert config is not None  # noqa: S101  the files written by write_kubeconfig name their context
            self._config = config
            self._connect().close()
        except _UNUSABLE as error:
            raise ClusterUnusable(f"the kubeconfig cannot be used: {str(error)[:_LONGEST]}") from None
        self.server = config.cluster.server

    def _connect(self) -> httpx.Client:
        """A client for one request, so that this object needs no `close`."""
        return Client(self._config, ConnectionParams(timeout=httpx.Timeout(_TIMEOUT_S), trust_env=False))

    def get(self, path: str) -> dict[str, Any] | None:
        """The object, None if it does not exist."""
        return self._request("GET", path, missing=True)

    def items(self, path: str) -> Sequence[dict[str, Any]]:
        """The items of a list, each with its kind; () if the cluster does not have this kind."""
        found = self._request("GET", path, missing=True)
        if found is None:
            return ()
        kind = str(found.get("kind", "")).removesuffix("List")
        return [{"kind": kind, **item} for item in found.get("items") or ()]

    def create(self, path: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object; the object as the API server stored it."""
        return self._request("POST", path, body=manifest) or {}

    def merge(self, path: str, change: Mapping[str, Any]) -> bool:
        """Change an object; False if it does not exist."""
        return self._request("PATCH", path, body=change, headers=_MERGE, missing=True) is not None

    def delete(self, path: str) -> bool:
        """Request the deletion of an object; False if it does not exist."""
        return self._request("DELETE", path, missing=True) is not None

    def _request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        missing: bool = False,
    ) -> dict[str, Any] | None:
        response = self._send(method, path, body, headers)
        if missing and response.status_code == 404:
            return None
        if response.is_error:
            raise ClusterUnusable(f"{method} {path}: {response.status_code} {_message(response)}")
        found: dict[str, Any] = response.json()
        return found

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str] | None
    ) -> httpx.Response:
        """The response. The request is repeated for up to 15 s while the API server answers that it is not ready."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                with self._connect() as http:
                    response = http.request(method, path, json=body, headers=headers)
            except (ConfigError, LookupError, TypeError, ValueError, httpx.InvalidURL) as error:
                raise ClusterUnusable(
                    f"the kubeconfig cannot be used: {str(error)[:_LONGEST]}. The demo knows tokens, client "
                    "certificates and exec plugins of client.authentication.k8s.io/v1beta1"
                ) from None
            except (httpx.HTTPError, OSError) as error:
                problem = str(error)[:_LONGEST] or type(error).__name__
                raise ClusterUnusable(f"the API server {self.server} did not answer: {problem}") from None
            if response.status_code not in _NOT_READY or time.monotonic() > deadline:
                return response
            time.sleep(_PAUSE_S)


def _message(response: httpx.Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return response.text[:300]
