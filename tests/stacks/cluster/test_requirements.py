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

from stacks.cluster.requirements import METALLB_CRDS, cluster_client, needed_definitions, require
from stacks.cluster.settings import ConfigError, parse_settings


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
                require(client, needed_definitions(parse_settings({})))


def test_what_is_missing_is_named_with_the_remedy() -> None:
    wanted = f"lacks {METALLB_CRDS[1]}: install MetalLB first"
    with (
        api_server(METALLB_CRDS[0]) as address,
        closing(cluster_client(given(address))) as client,
        pytest.raises(ConfigError, match=wanted),
    ):
        require(client, needed_definitions(parse_settings({})))


def given(address: str, **user: Any) -> dict[str, str]:
    return {"kubernetes:kubeconfig": document(address, **user)}


def test_an_api_server_that_refuses_or_is_away_is_named() -> None:
    with (
        api_server(*METALLB_CRDS, status=403) as address,
        closing(cluster_client(given(address))) as client,
        pytest.raises(
            ConfigError, match=f"the API server at {address}.* could not be asked about custom resources: .*403"
        ),
    ):
        require(client, needed_definitions(parse_settings({})))
    with closing(cluster_client(given(address))) as client, pytest.raises(ConfigError, match="could not be asked"):
        require(client, needed_definitions(parse_settings({})))


def test_a_credential_plugin_that_fails_is_no_traceback() -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}
    with (
        closing(cluster_client(given("http://127.0.0.1:9", exec=plugin))) as client,
        pytest.raises(ConfigError, match="the credential plugin no-such-plugin failed"),
    ):
        require(client, needed_definitions(parse_settings({})))


@pytest.mark.parametrize("text", ["{", "{}", '{"current-context": "x"}', "/nowhere/config"])
def test_a_kubeconfig_that_cannot_be_used_says_what_to_set(text: str) -> None:
    with pytest.raises(ConfigError, match=r"(?s)no usable kubeconfig .*set KUBECONFIG or kubernetes:kubeconfig"):
        cluster_client({"kubernetes:kubeconfig": text})


def test_everything_that_is_missing_is_named_at_once() -> None:
    gateway = {"create": True}
    settings = parse_settings({"lessor:ingress-mode": "gateway-api", "lessor:gateway": json.dumps(gateway)})
    with (
        api_server() as address,
        closing(cluster_client(given(address))) as client,
        pytest.raises(ConfigError) as error,
    ):
        require(client, needed_definitions(settings))
    assert [line.partition(":")[0] for line in str(error.value).splitlines()] == [
        "the cluster lacks ipaddresspools.metallb.io and l2advertisements.metallb.io",
        "the cluster lacks gateways.gateway.networking.k8s.io and httproutes.gateway.networking.k8s.io",
        "the cluster lacks clientsettingspolicies.gateway.nginx.org",
    ]


def test_what_the_stack_brings_is_not_asked_for() -> None:
    assert needed_definitions(parse_settings({"lessor:metallb": '{"install": true}'})) == {}
