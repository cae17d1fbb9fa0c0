"""The hardware server: paths, methods and errors (operators.md §2.4)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer
from typer.testing import CliRunner

from provider.cli import build_app
from provider.operators.hardware.report import KINDS, report
from provider.operators.hardware.server import hardware_app
from provider.operators.hardware.tree import Tree


@pytest.fixture
async def client(machine: Callable[[str], Tree]) -> AsyncIterator[TestClient]:
    async with TestClient(TestServer(hardware_app(machine("amd64-accel-nvidia")))) as found:
        yield found


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_has_a_path(client: TestClient, kind: str, machine: Callable[[str], Tree]) -> None:
    async with client.get(f"/{kind}") as response:
        assert (response.status, response.headers["Content-Type"]) == (200, "application/json; charset=UTF-8")
        assert await response.json() == json.loads(json.dumps(report(kind, machine("amd64-accel-nvidia"))))


async def test_the_root_has_the_go_provider_s_four_kinds_and_node_what_the_operator_asks(client: TestClient) -> None:
    async with client.get("/") as response:
        assert (await response.json()).keys() == {"errors", "cpu", "memory", "gpu", "pci"}
    async with client.get("/node") as response:
        assert (await response.json()).keys() == {"errors", "cpu", "gpu", "memory", "block", "network", "features"}


async def test_other_methods_and_paths_are_refused(client: TestClient) -> None:
    async with client.post("/cpu") as response:
        assert response.status == 405
    async with client.head("/cpu") as response:
        assert response.status == 405
    async with client.get("/floppy") as response:
        assert response.status == 404


async def test_what_cannot_be_read_is_500_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "sys/firmware/dmi/tables").mkdir(parents=True)

    class Broken(Tree):
        def names(self, path: str) -> list[str]:
            raise OSError("the disk is gone")

    async with TestClient(TestServer(hardware_app(Broken(tmp_path)))) as client, client.get("/cpu") as response:
        assert (response.status, await response.text()) == (500, "the disk is gone")


def test_the_command_prints_a_kind_indented(machine: Callable[[str], Tree]) -> None:
    root = str(machine("amd64-6179").root)
    done = CliRunner().invoke(build_app(), ["tools", "psutil", "list", "gpu", "--root", root])
    assert done.exit_code == 0
    assert done.output.startswith('{\n  "cards": [\n')
    assert json.loads(done.output) == report("gpu", machine("amd64-6179"))
