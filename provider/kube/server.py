"""The HTTP client for the API server, made anew when the kubeconfig changes or a plugin gives another certificate.

Credentials in a kubeconfig are renewed by programs beside the provider (k3s, kubeadm, a cloud's tools); a provider that
had read them once would be refused until its restart.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import httpx2 as httpx
import structlog
from cryptography.x509 import load_pem_x509_certificate

from provider.errors import SettingsError
from provider.watched_file import file_mark
from stacks.common import EngineError, kubeconfig_files, read_kubeconfig
from stacks.kube import Connection, connect

__all__ = ["CERTIFICATE_SOON_S", "ApiServer"]

_DAY_S = 86400.0
CERTIFICATE_SOON_S = 14 * _DAY_S
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_log = structlog.get_logger(__name__)


class ApiServer:
    """`address`: where the API server is. Raises `SettingsError` for a kubeconfig that cannot be used at the start;
    later a wrong one is logged, and the last one that could be used stays in use.
    """

    def __init__(self, kubeconfig: Path | None, *, timeout_seconds: float) -> None:
        self._source = kubeconfig or _found()
        self._timeout = timeout_seconds
        self._files = self._file_marks()
        self._connection = self._connect()
        self._http = self._made()
        self._retired: list[httpx.AsyncClient] = []
        self._warned_at = 0.0

    @property
    def address(self) -> str:
        return self._connection.address

    def certificate_s(self) -> float | None:
        """Seconds until the client's certificate in the kubeconfig ends; None without one."""
        try:
            found = load_pem_x509_certificate(self._connection.certificate)
        except ValueError:
            return None
        return found.not_valid_after_utc.timestamp() - time.time()

    def _warn_of_the_end(self) -> None:
        """Once a day while the certificate ends soon: afterwards every request is refused."""
        if time.monotonic() - self._warned_at < _DAY_S and self._warned_at:
            return
        self._warned_at = time.monotonic()
        if (left := self.certificate_s()) is not None and left < CERTIFICATE_SOON_S:
            _log.warning(
                "kube.certificate_ends",
                days=round(left / _DAY_S, 1),
                remedy=f"renew the client's certificate in {self._source}; it is read again without a restart",
            )

    async def client(self) -> httpx.AsyncClient:
        """The client for one request. Requests under way keep theirs."""
        if (marks := self._file_marks()) != self._files:
            self._files = marks
            try:
                self._connection = self._connect()
                self._replace()
                self._warned_at = 0.0
                _log.info("kube.kubeconfig_read", kubeconfig=str(self._source), server=self.address)
            except SettingsError as error:
                _log.error("kube.kubeconfig_wrong", problem=str(error), kept="the kubeconfig that was read last")
        elif self._connection.authentication.certificates > max(self._certificates, 1):
            self._replace()
        self._warn_of_the_end()
        while len(self._retired) > 1:
            await self._retired.pop(0).aclose()
        return self._http

    async def aclose(self) -> None:
        await asyncio.gather(*(each.aclose() for each in (*self._retired, self._http)))

    def _replace(self) -> None:
        """Use a new client. The one before stays open for the requests under way, until the next change."""
        self._retired.append(self._http)
        self._http = self._made()

    def _made(self) -> httpx.AsyncClient:
        self._certificates = self._connection.authentication.certificates
        return httpx.AsyncClient(**self._connection.arguments(), timeout=httpx.Timeout(self._timeout), trust_env=False)

    def _connect(self) -> Connection:
        try:
            document = read_kubeconfig(self._source) if self._source else _in_a_pod()
        except EngineError as error:
            raise SettingsError(str(error)) from error
        try:
            return connect(document)
        except EngineError as error:
            raise SettingsError(f"the kubeconfig {self._source} cannot be used: {error}") from error

    def _file_marks(self) -> tuple[tuple[int, ...], ...]:
        return tuple(map(file_mark, kubeconfig_files(self._source))) if self._source else ()


def _found() -> Path | None:
    """None: inside a pod, where its account is used; else $KUBECONFIG or the user's own file."""
    if (_ACCOUNT / "token").exists():
        return None
    return Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")


def _in_a_pod() -> dict[str, Any]:
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
    address = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    cluster = {"server": address, "certificate-authority": str(_ACCOUNT / "ca.crt")}
    return {
        "current-context": "pod",
        "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod"}}],
        "clusters": [{"name": "pod", "cluster": cluster}],
        "users": [{"name": "pod", "user": {"tokenFile": str(_ACCOUNT / "token")}}],
    }
