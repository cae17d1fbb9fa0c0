"""Maintenance: what an operator drains makes no bids, closes nothing, survives a restart and ends by itself."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lease.exit_codes import FINE, TROUBLE, USAGE
from provider.cli import build_app
from provider.maintenance import (
    Drain,
    Maintenance,
    change_maintenance,
    maintenance_path,
    read_maintenance,
    watched_maintenance,
    write_maintenance,
)

NOW = 1_800_000_000.0


def lessor(home: Path, *arguments: str):
    return CliRunner().invoke(build_app(), [*arguments], env={"AP_HOME": str(home), "COLUMNS": "200"})


def test_a_drain_is_seen_by_a_provider_that_runs_and_by_the_next_one(tmp_path: Path) -> None:
    running = watched_maintenance(tmp_path)
    assert not running().bids
    done = lessor(tmp_path, "drain", "--for", "2h", "--reason", "new disks")
    assert done.exit_code == FINE and "makes no bids until" in done.stdout
    for provider in (running, watched_maintenance(tmp_path)):
        assert provider().bids.startswith("drained until ") and "new disks" in provider().bids
        assert provider().tenants().startswith("the provider is in maintenance until ")
    assert lessor(tmp_path, "undrain").exit_code == FINE
    assert not running().bids and not running().tenants()


def test_a_drain_ends_by_itself_and_one_without_an_end_does_not(tmp_path: Path) -> None:
    write_maintenance(tmp_path, Maintenance(provider=Drain(since=NOW, until=NOW + 60), nodes={"n": Drain(since=NOW)}))
    time = NOW
    state = watched_maintenance(tmp_path, now=lambda: time)
    assert state().bids and [*state().nodes] == ["n"]
    time = NOW + 60
    assert not state().bids and [*state().nodes] == ["n"]
    time = NOW + 10**9
    assert [*state().nodes] == ["n"]


def test_nodes_are_drained_one_by_one_and_only_their_tenants_read_of_it(tmp_path: Path) -> None:
    lessor(tmp_path, "drain", "n1", "n2", "--reason", "fans")
    lessor(tmp_path, "undrain", "n2")
    state = read_maintenance(tmp_path)
    assert not state.bids and [*state.nodes] == ["n1"]
    assert state.tenants(["n1", "n3"]) == "a node of this lease is in maintenance: fans"
    assert not state.tenants(["n2", "n3"])
    lessor(tmp_path, "undrain")
    assert not read_maintenance(tmp_path).nodes


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"provider": 7}', b"\xff", b'{"nodes": {"a": {}}}', b"x" * 300_000]
    + [
        b'{"provider": {"since": %s, "until": %s}}' % pair
        for pair in ((b"1", b"1e300"), (b"1e999", b"2"), (b"-1", b"2"))
    ],
)
def test_a_file_that_no_command_wrote_changes_nothing_and_is_named_once(tmp_path: Path, content: bytes) -> None:
    problems: list[str] = []
    write_maintenance(tmp_path, Maintenance(provider=Drain(since=NOW)))
    state = watched_maintenance(tmp_path, now=lambda: NOW, problem=problems.append)
    assert state().bids
    maintenance_path(tmp_path).write_bytes(content)
    assert state().bids and state().bids and len(problems) == 1
    assert lessor(tmp_path, "drain").exit_code == TROUBLE


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(maintenance_path(tmp_path))
    with pytest.raises(ValueError, match="no file of `lessor drain`"):
        read_maintenance(tmp_path)


def test_the_file_is_the_providers_own_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    lessor(tmp_path, "drain")
    assert [path.name for path in tmp_path.iterdir()] == ["maintenance.json"]
    assert maintenance_path(tmp_path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "arguments",
    [
        ("--for", "soon"),
        ("--for", "9" * 20 + "h"),
        ("--for", "9" * 400 + "h"),
        ("--reason", "a\x1bb"),
        ("--reason", "a" * 301),
    ],
)
def test_a_time_or_a_reason_that_cannot_be_is_wrong_usage(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert lessor(tmp_path, "drain", *arguments).exit_code == USAGE
    assert not maintenance_path(tmp_path).exists()


def test_nodes_that_are_drained_at_once_are_all_drained(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(8)]

    def drained(name: str) -> Callable[[Maintenance], Maintenance]:
        def change(state: Maintenance) -> Maintenance:
            time.sleep(0.01)  # the others read meanwhile
            return state.model_copy(update={"nodes": {**state.nodes, name: Drain(since=NOW)}})

        return change

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda name: change_maintenance(tmp_path, drained(name)), names))
    assert sorted(read_maintenance(tmp_path).nodes) == names
