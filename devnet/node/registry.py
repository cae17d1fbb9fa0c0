"""`python -m devnet.node.registry FOLDER PORT`: a read-only registry over a folder of `devnet.node.images`.

The pull part of the OCI distribution API, on loopback. containerd sends every reference here and names the registry it
meant in `?ns=`. A reference that the folder does not hold gets the stand-in image, except repositories that begin with
`missing/` (404), `private/` (401 without the tenant's credentials) or `slow/` (answers after 20 s).
"""

from __future__ import annotations

import base64
import io
import json
import shutil
import sys
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO
from urllib.parse import parse_qs, urlsplit

from devnet.node.images import MANIFEST_TYPE, STAND_IN

__all__ = ["PASSWORD", "USER"]

USER, PASSWORD = "tenant", "secret"
_AUTHORIZATION = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
_SLOW_S = 20.0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Registry

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        parts = url.path.strip("/").split("/")
        if parts == ["v2"]:
            return self._send(HTTPStatus.OK, b"{}", "application/json")
        repository, kind, reference = "/".join(parts[1:-2]), parts[-2], parts[-1]
        refusal = self._refusal(repository)
        if refusal is not None:
            return self._send(refusal, json.dumps({"errors": [{"code": refusal.name}]}).encode(), "application/json")
        if repository.startswith("slow/"):
            time.sleep(_SLOW_S)
        registry = parse_qs(url.query).get("ns", [""])[0]
        digest = self.server.digest(f"{registry}/{repository}:{reference}", reference)
        return self._send_blob(digest, MANIFEST_TYPE if kind == "manifests" else "application/octet-stream")

    do_HEAD = do_GET  # noqa: N815

    def _refusal(self, repository: str) -> HTTPStatus | None:
        if repository.startswith("private/") and self.headers.get("Authorization") != _AUTHORIZATION:
            return HTTPStatus.UNAUTHORIZED
        return HTTPStatus.NOT_FOUND if repository.startswith("missing/") else None

    def _send_blob(self, digest: str, media: str) -> None:
        path = self.server.folder / "blobs" / digest.removeprefix("sha256:")
        if not path.is_file():
            return self._send(HTTPStatus.NOT_FOUND, b"{}", "application/json")
        with path.open("rb") as blob:  # some layers have hundreds of megabytes
            return self._send(HTTPStatus.OK, blob, media, digest=digest, length=path.stat().st_size)

    def _send(
        self, status: HTTPStatus, body: bytes | BinaryIO, media: str, *, digest: str = "", length: int = 0
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body) if isinstance(body, bytes) else length))
        if digest:
            self.send_header("Docker-Content-Digest", digest)
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", 'Basic realm="lessor"')
        self.end_headers()
        if self.command == "HEAD":
            return
        shutil.copyfileobj(io.BytesIO(body) if isinstance(body, bytes) else body, self.wfile)


class _Registry(ThreadingHTTPServer):
    def __init__(self, folder: Path, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.folder = folder

    def digest(self, tag: str, reference: str) -> str:
        """The digest that a reference means: itself, the tag's, or the stand-in's."""
        if reference.startswith("sha256:"):
            return reference
        tags: dict[str, str] = json.loads((self.folder / "tags.json").read_text())
        return tags.get(tag, tags[STAND_IN])


if __name__ == "__main__":
    _Registry(Path(sys.argv[1]), int(sys.argv[2])).serve_forever()
