"""A secrets service on loopback that implements the part of Vault's transit protocol that Pulumi's `hashivault://`
uses.

Once an update the command line has the stack's data key decrypted (toolchain.md §3); a passphrase would cost it 0.15 s
of key derivation each time. Every stack has a data key of its own, encrypted here with a key that is derived from the
operator's. The service listens on loopback only, serves only processes of its own user (the kernel names the owner of
the other end), and only with the token of the running operation.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from stacks.common.errors import EngineError
from stacks.common.peers import Owners

__all__ = ["MAX_BODY", "TransitKey", "TransitService"]

MAX_BODY = 64 << 10
"""The most bytes of a request; a data key has 32, a single secret that someone encrypts by hand a few KiB."""
_MAX_NAME = 128
_NONCE = 12
_PREFIX = "vault:v1:"
_REQUEST_S = 10.0


class TransitKey:
    """Encrypts with keys derived from `secret`, one for each name (HKDF-SHA-256, AES-256-GCM, the name
    authenticated).
    """

    def __init__(self, secret: bytes) -> None:
        if len(secret) < 16:
            raise EngineError("the operator's key is too short for encryption")
        self._secret = secret

    @classmethod
    def load(cls, path: Path) -> TransitKey:
        """The key in the engine's key file. Raises `EngineError`."""
        try:
            return cls(path.read_bytes().strip())
        except OSError as error:
            raise EngineError(f"the key {path} cannot be read: {error.strerror}") from None

    def encrypt(self, name: str, plain: bytes) -> str:
        """The text in Vault's form: `vault:v1:` and base64."""
        nonce = os.urandom(_NONCE)
        sealed = self._cipher(name).encrypt(nonce, plain, name.encode())
        return _PREFIX + base64.b64encode(nonce + sealed).decode()

    def decrypt(self, name: str, text: str) -> bytes:
        """The plain bytes. Raises `ValueError` for text that this key did not encrypt under that name."""
        if not text.startswith(_PREFIX):
            raise ValueError("ciphertext of an unknown form")
        try:
            raw = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
            return self._cipher(name).decrypt(raw[:_NONCE], raw[_NONCE:], name.encode())
        except (ValueError, InvalidTag):
            raise ValueError("ciphertext of another key, or damaged") from None

    def _cipher(self, name: str) -> AESGCM:
        derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"lessor transit " + name.encode())
        return AESGCM(derived.derive(self._secret))


class TransitService:
    """The service in a thread of its own, at a free port.

    with TransitService(key) as service, service.grant() as token:
        environment = {"VAULT_SERVER_URL": service.url, "VAULT_SERVER_TOKEN": token}
    """

    def __init__(self, key: TransitKey, *, owners: Callable[[int], Owners] = Owners) -> None:
        """`owners` makes the check of who owns the other end of a connection to the port."""
        self._server = _Server(key, owners)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> TransitService:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._server.owners.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def grant(self) -> Iterator[str]:
        """A random token that is valid until the block ends."""
        token = secrets.token_urlsafe(32)
        self._server.tokens.add(token)
        try:
            yield token
        finally:
            self._server.tokens.discard(token)


class _Server(ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, key: TransitKey, owners: Callable[[int], Owners]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.key = key
        self.tokens: set[str] = set()
        self.owners = owners(int(self.server_address[1]))
        self._asking = threading.Lock()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Check, before the first byte is read, that the other end is a socket of the own user."""
        with self._asking:
            return self.owners.is_ours(f"ipv4:{client_address[0]}:{client_address[1]}")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a peer that goes away or hangs: a traceback could hold data that it sent."""

    def admits(self, token: str) -> bool:
        return any(hmac.compare_digest(token.encode(), one.encode()) for one in tuple(self.tokens))


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # with it every answer waits 40 ms for an acknowledgement
    wbufsize = -1
    timeout = _REQUEST_S

    def do_PUT(self) -> None:
        """`PUT /v1/transit/{encrypt,decrypt}/NAME`."""
        length = self.headers.get("Content-Length") or ""
        if not length.isascii() or not length.isdigit() or len(length) > 9 or int(length) > MAX_BODY:
            self.close_connection = True  # the body is not read, so nothing can follow it
            return self._answer(413, {"errors": [f"the body must have at most {MAX_BODY} bytes and its length"]})
        body = self.rfile.read(int(length))
        if not self.server.admits(self.headers.get("X-Vault-Token") or ""):
            return self._answer(403, {"errors": ["permission denied"]})
        try:
            return self._answer(200, {"data": self._perform(json.loads(body))})
        except (ValueError, KeyError, TypeError, RecursionError):
            return self._answer(400, {"errors": ["not a request of the transit engine, or not of this key"]})

    do_POST = do_PUT  # noqa: N815  Vault takes both

    def _perform(self, asked: dict[str, Any]) -> dict[str, str]:
        _, version, engine, verb, name = self.path.split("/")
        if (version, engine) != ("v1", "transit") or not 0 < len(name) <= _MAX_NAME:
            raise ValueError(self.path)
        if verb == "encrypt":
            return {"ciphertext": self.server.key.encrypt(name, base64.b64decode(asked["plaintext"], validate=True))}
        if verb == "decrypt":
            plain = self.server.key.decrypt(name, asked["ciphertext"])
            return {"plaintext": base64.b64encode(plain).decode()}
        raise ValueError(verb)

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
        """Log nothing."""
