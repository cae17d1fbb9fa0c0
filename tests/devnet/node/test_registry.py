"""The registry answers any reference with an image of its own, and refuses those that are named for it."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from devnet.node.registry import PASSWORD, USER, _Registry
from tests.devnet.node.registry_folder import written_images


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Registry]:
    with _Registry(written_images(tmp_path, monkeypatch), 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(registry: _Registry, path: str, *, method: str = "GET", login: str = "") -> requests.Response:
    """One request as containerd makes it: `ns` names the registry that the reference meant."""
    headers = {"Connection": "close"}
    if login:
        headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
    url = f"http://127.0.0.1:{registry.server_port}/v2/{path}"
    return requests.request(method, url, headers=headers, timeout=10)


def test_any_reference_is_answered_with_the_stand_in(registry: _Registry) -> None:
    tags = json.loads((registry.folder / "tags.json").read_text())
    for path in ("library/nginx/manifests/1.27?ns=docker.io", "a/b/c/manifests/v1?ns=ghcr.io"):
        answer = ask(registry, path)
        assert answer.status_code == 200
        assert answer.headers["Docker-Content-Digest"] == tags["stand-in"]
        assert f"sha256:{hashlib.sha256(answer.content).hexdigest()}" == tags["stand-in"]


def test_the_nodes_own_images_are_found_by_registry_and_name(registry: _Registry) -> None:
    tags = json.loads((registry.folder / "tags.json").read_text())
    answer = ask(registry, "edge/manifests/1?ns=lessor.test", method="HEAD")
    assert answer.headers["Docker-Content-Digest"] == tags["lessor.test/edge:1"]
    assert answer.content == b"" and int(answer.headers["Content-Length"]) > 0


def test_blobs_are_served_by_digest_and_others_are_not_found(registry: _Registry) -> None:
    digest = json.loads(ask(registry, "x/manifests/1?ns=docker.io").content)["config"]["digest"]
    assert json.loads(ask(registry, f"x/blobs/{digest}").content)["os"] == "linux"
    assert ask(registry, f"x/blobs/sha256:{'0' * 64}").status_code == 404


def test_an_image_can_be_missing(registry: _Registry) -> None:
    assert ask(registry, "missing/x/manifests/1?ns=docker.io").status_code == 404


@pytest.mark.parametrize(("login", "status"), [("", 401), ("tenant:wrong", 401), (f"{USER}:{PASSWORD}", 200)])
def test_an_image_can_want_credentials(registry: _Registry, login: str, status: int) -> None:
    answer = ask(registry, "private/x/manifests/1?ns=registry.example", login=login)
    assert answer.status_code == status
    assert ("WWW-Authenticate" in answer.headers) is (status == 401), "containerd asks with credentials only then"
