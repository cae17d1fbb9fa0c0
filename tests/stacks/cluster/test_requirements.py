"""The question whether MetalLB is installed, and its answers in words that say what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from stacks.cluster.requirements import METALLB_CRDS, cluster_client, require_metallb
from stacks.cluster.settings import ConfigError


@contextmanager
def api_server(*crds: str, status: int = 200) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path.rpartition("/")[2] in crds else 404)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def document(address: str, **user: Any) -> str:
    return json.dumps(
        {
            "clusters": [{"name": "c", "cluster": {"server": address}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def test_metallb_is_found_by_a_kubeconfig_as_text_as_a_file_and_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with api_server(*METALLB_CRDS) as address:
        (tmp_path / "config").write_text(document(address, token="t"))
        monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/missing:{tmp_path}/config")
        for text in (document(address), str(tmp_path / "config"), ""):
            with closing(cluster_client({"kubernetes:kubeconfig": text})) as client:
                require_metallb(client)


def test_what_is_missing_is_named_with_the_remedy() -> None:
    wanted = f"lacks {METALLB_CRDS[1]}: install MetalLB first"
    with (
        api_server(METALLB_CRDS[0]) as address,
        closing(cluster_client(given(address))) as client,
        pytest.raises(ConfigError, match=wanted),
    ):
        require_metallb(client)


def given(address: str, **user: Any) -> dict[str, str]:
    return {"kubernetes:kubeconfig": document(address, **user)}


def test_an_api_server_that_refuses_or_is_away_is_named() -> None:
    with (
        api_server(*METALLB_CRDS, status=403) as address,
        closing(cluster_client(given(address))) as client,
        pytest.raises(ConfigError, match=f"the API server at {address}.* could not be asked about MetalLB: .*403"),
    ):
        require_metallb(client)
    with closing(cluster_client(given(address))) as client, pytest.raises(ConfigError, match="could not be asked"):
        require_metallb(client)


def test_a_credential_plugin_that_fails_is_no_traceback() -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}
    with (
        closing(cluster_client(given("http://127.0.0.1:9", exec=plugin))) as client,
        pytest.raises(ConfigError, match="the credential plugin no-such-plugin failed"),
    ):
        require_metallb(client)


@pytest.mark.parametrize("text", ["{", "{}", '{"current-context": "x"}', "/nowhere/config"])
def test_a_kubeconfig_that_cannot_be_used_says_what_to_set(text: str) -> None:
    with pytest.raises(ConfigError, match=r"(?s)no usable kubeconfig .*set KUBECONFIG or kubernetes:kubeconfig"):
        cluster_client({"kubernetes:kubeconfig": text})
