"""Runs a spec's `Lease` against a monitor that only writes down what it was asked; prints the requests as JSON.

A process of its own, because the SDK keeps its settings in globals: `python -m tests.components.registrations < SPEC`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pulumi
from google.protobuf.json_format import MessageToDict
from pulumi.runtime import mocks, stack
from pulumi.runtime.proto import resource_pb2

from components.resources.lease import LeaseComponent
from components.resources.manifest import ClusterProvider
from lease.spec import LeaseSpec


class Recorder(mocks.MockMonitor):
    """Answers every registration with its own inputs."""

    def __init__(self) -> None:
        super().__init__(_Echo())
        self.requests: list[dict[str, Any]] = []

    def RegisterResource(self, request: resource_pb2.RegisterResourceRequest) -> Any:
        self.requests.append(MessageToDict(request))
        return super().RegisterResource(request)


class _Echo(mocks.Mocks):
    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], None]:
        return {}, None

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        return f"{args.name}-id", {}


def main() -> None:
    spec = LeaseSpec.from_json(sys.stdin.read())
    recorder = Recorder()
    mocks.set_mocks(_Echo(), project="lease", stack="s", monitor=recorder)

    def program() -> None:
        cluster = ClusterProvider("cluster", kubeconfig="/etc/kubeconfig", context="c")
        LeaseComponent(spec.namespace, spec, pulumi.ResourceOptions(providers=[cluster]))

    mocks._sync_await(stack.run_pulumi_func(program))  # type: ignore[attr-defined]
    print(json.dumps(recorder.requests))


if __name__ == "__main__":
    main()
