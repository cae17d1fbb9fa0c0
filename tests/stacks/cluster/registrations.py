"""Registers the cluster stack with Pulumi's mocks, once for each configuration on standard input, and prints the
Kubernetes objects of each as JSON.

A process of its own, because the SDK keeps its settings in globals.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pulumi
from pulumi.runtime import mocks, stack

from policies.pack import manifest
from stacks.cluster.program import cluster
from stacks.cluster.settings import ClusterStackSettings, parse_settings


class Recorder(mocks.Mocks):
    """Answers every registration with its own inputs."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        if (made := manifest(args.typ, args.inputs)) is not None:
            self.objects.append(dict(made))
        return f"{args.name}-id", dict(args.inputs)

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], None]:
        return {}, None


def objects(settings: ClusterStackSettings) -> list[dict[str, Any]]:
    recorder = Recorder()
    mocks.set_mocks(recorder, project="lessor", stack="s")
    mocks._sync_await(stack.run_pulumi_func(lambda: cluster(settings)))  # type: ignore[attr-defined]
    return recorder.objects


class _EverythingIsThere(BaseHTTPRequestHandler):
    """An API server that has every object that it is asked about."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Print nothing."""


def _api_server() -> str:
    """A kubeconfig."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _EverythingIsThere)
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    return json.dumps(
        {
            "clusters": [{"name": "c", "cluster": {"server": address}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def main() -> None:
    """Without MetalLB, if a configuration says nothing else."""
    pulumi.runtime.set_all_config({"kubernetes:kubeconfig": _api_server()})
    found = []
    for config in json.load(sys.stdin):
        texts = {
            f"lessor:{key}": value if isinstance(value, str) else json.dumps(value) for key, value in config.items()
        }
        found.append(objects(parse_settings({"lessor:metallb": '{"required": false}'} | texts)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
