"""The API server and the user of a kubeconfig's context.

lightkube reads fewer kubeconfigs than kubectl: it leaves out `proxy-url` and `tls-server-name` without a report, and
refuses credential plugins of `v1` and plugins that give a certificate.
"""

from __future__ import annotations

import base64
import binascii
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stacks.common.errors import EngineError
from stacks.kube.credentials import Credentials, credentials_of

__all__ = ["Connection", "connect"]

_NOT_SUPPORTED = ("as", "as-uid", "as-groups", "as-user-extra", "auth-provider")
"""Pulumi's plugin obeys them, so the provider must not act as somebody else."""
_Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Connection:
    """`address`: the API server. `verify`: the TLS context, with the client's certificate. `proxy`: empty for none.
    `certificate`: the client's, in PEM, as the kubeconfig has it; empty for none and for one that a plugin gives.
    `server_name`: the name that the API server's certificate must have; empty for the host of `address`.
    """

    address: str
    verify: ssl.SSLContext
    credentials: Credentials = field(repr=False)
    proxy: str = ""
    certificate: bytes = b""
    server_name: str = ""

    def arguments(self) -> dict[str, Any]:
        """Arguments of `httpx2.Client`."""
        from stacks.kube.authentication import Authentication  # noqa: PLC0415  the daemon does without httpx

        return {
            "base_url": self.address,
            "verify": self.verify,
            "auth": Authentication(self.credentials, server_name=self.server_name),
            "proxy": self.proxy or None,
        }


def connect(document: Mapping[str, Any], context: str = "") -> Connection:
    """The connection of a context (empty: the current one). `document`: as `read_kubeconfig` returns it.

    Raises `EngineError` with what is missing, wrong or not supported. Nothing is asked of the API server yet.
    """
    try:
        chosen = context or document.get("current-context") or ""
        if not chosen:
            raise EngineError("it names no current context: set current-context in it")
        names = _entry(document, "contexts", str(chosen))
        cluster = _entry(document, "clusters", str(names.get("cluster")))
        user = _entry(document, "users", str(names["user"])) if names.get("user") else {}
        return _connection(cluster, user)
    except (AttributeError, TypeError, LookupError, ValueError, OSError) as error:
        raise EngineError(str(error) or type(error).__name__) from None


def _connection(cluster: _Entry, user: _Entry) -> Connection:
    if unsupported := [name for name in _NOT_SUPPORTED if user.get(name)]:
        raise EngineError(f"its user has {unsupported[0]}, which is not supported")
    verify = _tls(cluster)
    certificate = _content(user, "client-certificate")
    if user.get("client-certificate") or user.get("client-certificate-data"):
        _load_certificate(verify, certificate, _content(user, "client-key"))
    credentials = credentials_of(user, cluster, use_certificate=lambda *pair: _load_certificate(verify, *pair))
    proxy = str(cluster.get("proxy-url") or "")
    if proxy and _scheme(proxy) not in ("http", "https"):
        raise EngineError("its proxy-url is not supported: only http://HOST:PORT and https://HOST:PORT are")
    address = str(cluster["server"])
    if _scheme(address) not in ("http", "https"):
        raise EngineError(f"its server {address!r} is not https://HOST:PORT")
    return Connection(address, verify, credentials, proxy, certificate, str(cluster.get("tls-server-name") or ""))


def _scheme(address: str) -> str:
    """Empty for what is no URL with a host."""
    try:
        url = urlsplit(address)
        return url.scheme if url.hostname and url.port != 0 else ""
    except ValueError:
        return ""


def _entry(document: Mapping[str, Any], section: str, name: str) -> _Entry:
    found = next((item for item in document.get(section) or () if item["name"] == name), None)
    if found is None:
        raise EngineError(f"{section[:-1]} {name!r} is not in it")
    entry: _Entry = found[section[:-1]]
    return entry


def _tls(cluster: _Entry) -> ssl.SSLContext:
    authority = _content(cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=authority.decode() or None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _content(entry: _Entry, name: str) -> bytes:
    """The content of a file, or of its `-data` form; empty without either."""
    if data := entry.get(f"{name}-data"):
        try:
            return base64.b64decode(str(data), validate=False)
        except binascii.Error as error:
            raise EngineError(f"{name}-data is not base64: {error}") from None
    return Path(str(entry[name])).read_bytes() if entry.get(name) else b""


def _load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Use this certificate for new connections. Raises ValueError when the two do not belong together."""
    with _file(certificate) as chain, _file(key) as private:
        try:
            context.load_cert_chain(chain, private, password="")
        except ssl.SSLError as error:
            raise ValueError(f"the client's certificate and key cannot be used: {error.reason or error}") from None


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """A file of this user alone, since ssl reads a certificate's key from files only."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name
