"""The credentials of a kubeconfig's user: a fixed header, a token file, or a plugin that is run when it is needed."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from stacks.common.errors import EngineError

__all__ = ["Credentials", "CredentialsError", "credentials_of"]

_API = "client.authentication.k8s.io/"
_VERSIONS = frozenset({f"{_API}v1", f"{_API}v1beta1", f"{_API}v1alpha1"})
_PLUGIN_S = 30.0
_TOKEN_FILE_S = 60.0
"""A token file is read again after so long, as kubectl does: the kubelet renews it."""
_EARLY_S = 10.0
"""A plugin's credentials are renewed this long before they expire."""
_SHOWN = 200
_Entry: TypeAlias = Mapping[str, Any]
_UseCertificate: TypeAlias = Callable[[bytes, bytes], None]


class CredentialsError(Exception):
    """There are no credentials now; a later request may find some. The text is for the operator."""


class Credentials(Protocol):
    """`header`: the value of Authorization, empty for none. `certificates`: how many a plugin has given so far; open
    connections keep the one they were made with.
    """

    header: str
    certificates: int

    def due(self) -> bool:
        """Whether `renew` must be called before a request."""
        ...

    def renew(self) -> bool:
        """Read the credentials again, which may take seconds. False when that brings nothing new. Raises
        `CredentialsError`.
        """
        ...


def credentials_of(user: _Entry, cluster: _Entry, *, use_certificate: _UseCertificate) -> Credentials:
    """The credentials of `user`. Nothing is read or run yet. Raises `EngineError` for a plugin that cannot be used."""
    if user.get("tokenFile"):
        return _TokenFile(Path(str(user["tokenFile"])))
    if user.get("token"):
        return _Fixed(f"Bearer {user['token']}")
    if user.get("exec"):
        return _plugin(user["exec"], cluster, use_certificate)
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password') or ''}"
        return _Fixed("Basic " + base64.b64encode(pair.encode()).decode())
    return _Fixed("")


@dataclass(slots=True)
class _Fixed:
    header: str = field(repr=False)
    certificates: int = 0

    def due(self) -> bool:
        return False

    def renew(self) -> bool:
        return False


@dataclass(slots=True)
class _TokenFile:
    path: Path
    header: str = field(default="", repr=False)
    certificates: int = 0
    read_at: float = 0.0

    def due(self) -> bool:
        return not self.header or time.monotonic() - self.read_at > _TOKEN_FILE_S

    def renew(self) -> bool:
        try:
            self.header = f"Bearer {self.path.read_text().strip()}"
        except (OSError, ValueError) as error:
            raise CredentialsError(f"the token file {self.path} cannot be read: {error}") from None
        self.read_at = time.monotonic()
        return True


@dataclass(slots=True)
class _Plugin:
    """A program that prints an ExecCredential: a token, a certificate with its key, or both."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    use_certificate: _UseCertificate
    header: str = field(default="", repr=False)
    certificates: int = 0
    certificate: str = field(default="", repr=False)
    expires: float | None = None
    asked: bool = False

    def due(self) -> bool:
        return not self.asked or (self.expires is not None and time.time() > self.expires - _EARLY_S)

    def renew(self) -> bool:
        try:
            status = json.loads(self._run())["status"]
            token, certificate = status.get("token"), status.get("clientCertificateData")
            if not token and not certificate:
                raise ValueError("it printed neither a token nor a certificate")
            expires = status.get("expirationTimestamp")
            until = datetime.fromisoformat(expires).timestamp() if expires else None
            if certificate and certificate != self.certificate:
                self.use_certificate(certificate.encode(), str(status.get("clientKeyData")).encode())
                self.certificate, self.certificates = certificate, self.certificates + 1
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            problem = str(error) if str(error) else type(error).__name__
            raise CredentialsError(f"the credential plugin {self.command[0]} failed: {problem}") from None
        self.header, self.expires, self.asked = (f"Bearer {token}" if token else ""), until, True
        return True

    def _run(self) -> bytes:
        environment = {**os.environ, **self.environment}
        try:
            ran = subprocess.run(
                self.command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PLUGIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ValueError(f"it did not end within {_PLUGIN_S:g} s") from None
        if ran.returncode:
            text = " ".join(ran.stderr.decode(errors="replace").split())[-_SHOWN:]
            raise ValueError(f"exit code {ran.returncode}{': ' if text else ''}{text}")
        return ran.stdout


def _plugin(plugin: _Entry, cluster: _Entry, use_certificate: _UseCertificate) -> _Plugin:
    version, command = str(plugin.get("apiVersion")), str(plugin["command"])
    if version not in _VERSIONS:
        raise EngineError(f"its credential plugin {command} speaks {version}, not {_API}v1 or {_API}v1beta1")
    if plugin.get("interactiveMode") == "Always":
        raise EngineError(f"its credential plugin {command} needs a terminal (interactiveMode: Always)")
    named = {str(item["name"]): str(item["value"]) for item in plugin.get("env") or ()}
    spec: dict[str, Any] = {"interactive": False}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = _cluster_info(cluster)
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    arguments = (str(argument) for argument in plugin.get("args") or ())
    return _Plugin((command, *arguments), named | {"KUBERNETES_EXEC_INFO": json.dumps(info)}, use_certificate)


def _cluster_info(cluster: _Entry) -> dict[str, Any]:
    names = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")
    found = {name: cluster[name] for name in names if cluster.get(name)}
    if cluster.get("certificate-authority"):
        content = Path(str(cluster["certificate-authority"])).read_bytes()
        found["certificate-authority-data"] = base64.b64encode(content).decode()
    extensions = {item["name"]: item["extension"] for item in cluster.get("extensions") or ()}
    config = extensions.get(f"{_API}exec")
    return found | ({"config": config} if config is not None else {})
