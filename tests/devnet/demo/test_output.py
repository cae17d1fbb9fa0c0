"""The demo's printed lines: short, one idea each, and without markup from texts of tenants."""

from __future__ import annotations

import io
import json
import sys

import pytest
from rich.console import Console

from devnet.demo.output import DemoOutput, shortened


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=80)


@pytest.fixture
def output(console: Console) -> DemoOutput:
    return DemoOutput(console)


def printed(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_long_name_loses_its_middle():
    name = "96sam85ob2oh8svrnfjps1lk1jbapkhrs8hkdqtc17hnc"
    assert shortened(name) == "96sam85ob2oh8svrnf…kdqtc17hnc"
    assert shortened("akash-deployment-restrictions") == "akash-deployment-restrictions"


def test_a_change_is_printed_by_its_fields_and_the_number_of_its_labels(output, console):
    version = 'labels["akash.network/manifest.resource.version"]'
    output.provider_event(
        {
            "event": "stack.resource",
            "operation": "preview",
            "op": "update",
            "type": "kubernetes:apps/v1:StatefulSet",
            "name": "db",
            "diff": [
                f"metadata.{version}",
                f"spec.template.metadata.{version}",
                "spec.template.spec.containers[0].image",
            ],
        }
    )
    assert printed(console) == ["   pulumi: would ~ StatefulSet db  [containers[0].image, 2 labels]"]


def test_a_lease_status_is_a_line_a_service_with_its_places(output, console):
    ready = {"available": 1, "total": 1}
    output.lease_status(
        200,
        json.dumps(
            {
                "services": {
                    "db": {**ready, "uris": None},
                    "web": {**ready, "uris": ["web.example.com"]},
                },
                "forwarded_ports": {"web": [{"host": "p.example.com", "externalPort": 30467, "proto": "TCP"}]},
                "ips": {"web": [{"IP": "203.0.113.10", "ExternalPort": 443, "Protocol": "TCP"}]},
            }
        ),
    )
    assert printed(console) == [
        "   tenant: GET lease status → 200",
        "           service db: 1 of 1 available",
        "           service web: 1 of 1 available, at web.example.com, p.example.com:30467/TCP, 203.0.113.10:443/TCP",
    ]


def test_a_lease_status_that_fails_is_printed_with_its_status(output, console):
    output.lease_status(404, "lease not found")
    assert printed(console) == ["   tenant: GET lease status → 404"]


def test_each_part_of_a_reason_has_a_line(output, console):
    output.provider_event({"event": "lease.state", "phase": "waiting for manifest", "reason": "no manifest; 300 s"})
    output.provider_event({"event": "lease.state", "phase": "running", "reason": ""})
    assert printed(console) == [
        "   lessor: lease waiting for manifest: no manifest",
        "           300 s",
        "   lessor: lease running",
    ]


def test_the_price_of_a_decision_is_wrapped(output, console):
    parts = [f"{number} milli-CPU of a long name × 0.0001" for number in range(6)]
    output.provider_event(
        {
            "event": "market.decided",
            "decision": 1,
            "price": "1uact",
            "maximum": "2uact",
            "parts": parts,
            "nodes": {"1": ["node-2", "node-1"], "2": ["node-1"]},
        }
    )
    first, *others = printed(console)
    assert first == "   lessor: decision 1: bid 1uact a block; reserved on node-1, node-2"
    assert " ".join(line.strip() for line in others[1:]) == " + ".join(parts)
    assert all(len(line) <= 120 for line in others)


def test_only_created_kubernetes_objects_of_the_cluster_stack_are_printed(output, console):
    for line in (
        "    +  kubernetes:core/v1:Namespace manifests created (0.40s)",
        "    +  pulumi:pulumi:Stack lessor-devnet created (26s)",
        "    + 10 created",
        "",
    ):
        output.created_object(line)
    assert printed(console) == ["   pulumi: + Namespace manifests created"]


def test_a_text_of_a_tenant_is_no_markup(output, console):
    output.line("[red]web[/] \x1b[2J")
    assert printed(console) == ["   [red]web[/] \N{REPLACEMENT CHARACTER}[2J"]


class Broken(io.StringIO):
    """What is behind the output, once it is gone."""

    def __init__(self, problem: Exception) -> None:
        super().__init__()
        self.problem = problem

    def write(self, text: str) -> int:
        raise self.problem


@pytest.mark.parametrize(
    "problem", [OSError(5, "the terminal"), BrokenPipeError(32, "the pipe"), OSError(28, "the disk")]
)
def test_an_output_that_fails_is_reported_once_and_raises_nothing(problem, monkeypatch):
    monkeypatch.setattr(
        Console, "on_broken_pipe", lambda console: sys.exit(1)
    )  # the real one closes this process's stdout
    lost: list[bool] = []
    output = DemoOutput(Console(file=Broken(problem)), lambda: lost.append(True))
    done = []
    with output.step("The demo removes its objects"):
        output.success("removed")
        done.append(True)
    assert (done, lost) == ([True], [True])
