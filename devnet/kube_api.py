"""The cluster's API by paths and plain objects, with what the kubeconfig says for TLS and authentication."""

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

_SECONDS = 15.0
_NOT_YET = (429, 503)
"""Too much to do, or a young custom resource whose storage is being made."""
_PAUSE_SECONDS = 0.5
_MERGE = {"Content-Type": "application/merge-patch+json"}


class KubeApi:
    """Raises `ClusterUnusable` for whatever is neither an answer of 2xx nor one that a method says it expects."""

    def __init__(self, kubeconfig: Path) -> None:
        try:
            config = KubeConfig.from_file(kubeconfig).get()
            assert config is not None  # noqa: S101  our files name their context
            self._config = config
            self._connect().close()
        except (AssertionError, ConfigError, OSError, ValueError) as error:
            raise ClusterUnusable(f"the kubeconfig cannot be used: {error}") from None
        self.server = config.cluster.server

    def _connect(self) -> httpx.Client:
        """A client for one request: nothing has to be closed, whoever stops asking and how."""
        return Client(self._config, ConnectionParams(timeout=httpx.Timeout(_SECONDS), trust_env=False))

    def get(self, path: str) -> dict[str, Any] | None:
        """The object, None when there is none."""
        return self._ask("GET", path, missing=True)

    def items(self, path: str) -> Sequence[dict[str, Any]]:
        """The list's items, each with its kind; () where the cluster does not know such objects."""
        found = self._ask("GET", path, missing=True)
        if found is None:
            return ()
        kind = str(found.get("kind", "")).removesuffix("List")
        return [{"kind": kind, **item} for item in found.get("items") or ()]

    def create(self, path: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """What the API server made of it."""
        return self._ask("POST", path, body=manifest) or {}

    def merge(self, path: str, change: Mapping[str, Any]) -> bool:
        """Change an object; False when there is none."""
        return self._ask("PATCH", path, body=change, headers=_MERGE, missing=True) is not None

    def delete(self, path: str) -> bool:
        """Ask for its deletion; False when there is none."""
        return self._ask("DELETE", path, missing=True) is not None

    def _ask(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        missing: bool = False,
    ) -> dict[str, Any] | None:
        response = self._insist(method, path, body, headers)
        if missing and response.status_code == 404:
            return None
        if response.is_error:
            raise ClusterUnusable(f"{method} {path}: {response.status_code} {_message(response)}")
        found: dict[str, Any] = response.json()
        return found

    def _insist(
        self, method: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str] | None
    ) -> httpx.Response:
        """The answer; asked again for a while where the API server says that it is not ready for that yet."""
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                with self._connect() as http:
                    response = http.request(method, path, json=body, headers=headers)
            except (httpx.HTTPError, ConfigError, OSError) as error:
                told = str(error) or type(error).__name__
                raise ClusterUnusable(f"the API server {self.server} could not be asked: {told}") from None
            if response.status_code not in _NOT_YET or time.monotonic() > deadline:
                return response
            time.sleep(_PAUSE_SECONDS)


def _message(response: httpx.Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return response.text[:300]
