"""What a lease's program asks of Pulumi's engine, twice: through the SDK, and as a list. Prints a pair for each spec.

A process of its own, because the SDK keeps its settings in globals: `python -m tests.stacks.worker.listed < SPECS`, a
spec a line.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from google.protobuf import empty_pb2
from google.protobuf.json_format import MessageToDict, ParseDict
from pulumi.runtime import reset_options, run_in_stack
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.settings import SETTINGS

from lease.spec import LeaseSpec
from stacks.common.config import PROJECT, EngineConfig
from stacks.worker.listing import list_program
from stacks.worker.program import lease_program
from stacks.worker.sdk import quiet_sdk

CONFIG = EngineConfig(data=Path("/engine"), kubeconfig=Path("/kubeconfig"), pulumi=Path("/pulumi"), context="c")
FEATURES = ("SECRETS", "RESOURCE_REFERENCES", "ALIAS_SPECS", "DELETED_WITH", "TRANSFORMS")
Requests = dict[str, dict[str, Any]]
"""What was asked for each resource, by its name here: its type and name."""


class Monitor:
    """The engine's side as the SDK sees it; a resource's URN is its name here, an id `id`."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.outputs: dict[str, Any] = {}

    def RegisterResource(self, request: Any) -> Any:
        self.asked.append(request)
        return resource_pb2.RegisterResourceResponse(urn=_name(request), id="id" if request.custom else "")

    def RegisterResourceOutputs(self, request: Any) -> Any:
        self.outputs[request.urn] = MessageToDict(request.outputs)
        return empty_pb2.Empty()

    def GetDeploymentInfo(self, request: Any) -> Any:
        known = vars(resource_pb2)
        return resource_pb2.DeploymentInfo(supportedFeatures=[known[f"RESOURCE_MONITOR_FEATURE_{n}"] for n in FEATURES])

    def SignalAndWaitForShutdown(self, request: Any) -> Any:
        return empty_pb2.Empty()


def by_sdk(program: Callable[[], None], stack: str) -> Requests:
    monitor = Monitor()

    def run() -> None:
        reset_options(project=PROJECT, stack=stack, monitor_address=None, engine_address=None, organization="o")
        SETTINGS.monitor = monitor
        asyncio.run(run_in_stack(program))  # type: ignore[arg-type]

    contextvars.copy_context().run(run)
    return {_name(asked): _shown(asked, monitor.outputs.get(_name(asked))) for asked in monitor.asked}


def by_list(program: Callable[[], None], stack: str) -> Requests:
    listing = list_program(program, project=PROJECT, stack=stack)
    text = json.dumps(listing["resources"])
    for number, item in enumerate(listing["resources"]):
        request = item["request"]
        text = text.replace(f"{listing['mark']}{number}.urn", f"{request['type']} {request['name']}")
        text = text.replace(f"{listing['mark']}{number}.id", "id")
    items = [
        (ParseDict(item["request"], resource_pb2.RegisterResourceRequest()), item["outputs"])
        for item in json.loads(text)
    ]
    return {_name(asked): _shown(asked, outputs) for asked, outputs in items}


def _name(request: Any) -> str:
    return f"{request.type} {request.name}"


def _shown(request: Any, outputs: Any) -> dict[str, Any]:
    """The request without the order of its dependencies, of which the SDK keeps a set."""
    shown = MessageToDict(request)
    shown["dependencies"] = sorted(request.dependencies)
    for empty in ("hooks", "stackTrace"):
        assert not shown.pop(empty, None)
    return {"request": shown, "outputs": outputs}


def main() -> None:
    quiet_sdk()
    for line in sys.stdin:
        spec = LeaseSpec.from_json(line)
        program = partial(lease_program, CONFIG, spec)
        pair = [by_sdk(program, spec.namespace), by_list(program, spec.namespace)]
        print(json.dumps(pair), flush=True)


if __name__ == "__main__":
    main()
