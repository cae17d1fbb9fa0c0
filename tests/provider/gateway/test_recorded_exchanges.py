"""Recorded requests of the Go provider, sent to our gateway: same status, type and body, but for listed differences."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from provider.gateway.config import Limits
from provider.gateway.provider_status import Amounts, NodeAmounts, ProviderStatus
from tests.provider.gateway import recorded
from tests.provider.gateway.differences import DIFFERENCES, Difference
from tests.provider.gateway.world import Answer, World, new_world

FILES = ("auth", "manifest", "lease", "notfound", "public")
_STATUS_ROWS = ("/status", "/%73tatus")


def difference(file: str, name: str) -> Difference | None:
    return next((row for row in DIFFERENCES if row.file == file and name in row.names), None)


def prepare(world: World, file: str, row: recorded.Record) -> None:
    """The moment and the settings of a record."""
    world.clock.set(recorded.moment(row))
    if file in ("auth", "lease"):
        recorded.fill_cluster(world, addresses=file == "lease" and row["request"]["path"].startswith("/lease"))
    if file == "manifest":
        recorded.fill_cluster(world, addresses=False)
    if row["request"]["path"].partition("?")[0] in _STATUS_ROWS and row["response"]["status"] == 200:
        world.status = provider_status(json.loads(row["response"]["body"]))


async def replay(world: World, row: recorded.Record) -> Answer:
    request = row["request"]
    headers = [(key, value) for key, value in request["headers"] if key.lower() != "connection"]
    return await world.send(request["method"], request["path"], headers=headers, body=recorded.request_body(row))


def same_type(answer: Answer, row: recorded.Record) -> None:
    theirs = row["response"]["headers"]
    if row["request"]["path"] == "/version" and answer.status == 200:  # its contents differ, and so may its length
        theirs = [pair for pair in theirs if pair[0] != "Transfer-Encoding"]
        answer.headers = [pair for pair in answer.headers if pair[0] not in ("Content-Length", "Transfer-Encoding")]
    assert [name for name, _ in answer.headers] == [name for name, _ in theirs]
    for name, value in theirs:
        assert name in ("Date", "Content-Length") or answer.header(name) == value, name


def same_body(answer: Answer, row: recorded.Record, body: str) -> None:
    path = row["request"]["path"].partition("?")[0]
    if path == "/version" and answer.status == 200:
        ours, theirs = json.loads(answer.text), json.loads(body)
        assert list(ours) == list(theirs)
        assert list(ours["akash"]) == list(theirs["akash"])
    elif path in _STATUS_ROWS and answer.status == 200:
        assert json.loads(answer.text) == _storage_sorted(json.loads(body))
    else:
        assert answer.text == body


def _storage_sorted(document: dict) -> dict:
    document["cluster"]["inventory"]["available"]["storage"].sort(key=lambda row: row["class"])
    return document


@pytest.mark.parametrize("file", FILES)
async def test_every_recorded_request_is_answered_as_recorded(file: str, tmp_path: Path) -> None:
    problems = []
    worlds = {flag: new_world(tmp_path / str(flag), static_hosts=flag) for flag in (True, False)}
    for world in worlds.values():
        recorded.fill_chain(world)
    async with worlds[True].running(), worlds[False].running():
        for row in recorded.records(file):
            if row["request"]["client_certificate"]:
                continue
            world = worlds["note" not in row]
            prepare(world, file, row)
            known = difference(file, row["name"])
            answer = await replay(world, row)
            try:
                assert answer.status == (known.status if known else row["response"]["status"])
                if known is None or known.body is None:
                    same_type(answer, row)
                same_body(answer, row, (known and known.body) or row["response"]["body"])
            except AssertionError as error:
                problems.append(f"{row['name']}: {error}")
    assert not problems, "\n\n".join(problems)


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("HTTP/1.0 without Host", b"GET /address HTTP/1.0\r\n\r\n"),
        ("HTTP/1.1 without Host", b"GET /address HTTP/1.1\r\n\r\n"),
        ("incomplete header", b"GET /address HTTP/1.1\r\nHost: x\r\n"),
        ("incomplete header", b"what is not HTTP\r\n\r\n"),
    ],
)
async def test_a_recorded_oddity_of_http_has_the_same_bytes(name: str, request_: bytes, tmp_path: Path) -> None:
    theirs = recorded.record("tls", name)["response"]
    world = new_world(tmp_path, limits=Limits(header_seconds=0.2))
    async with world.running():
        ours = (await world.raw(request_)).decode()
    assert re.sub("Date: .*GMT", "", ours) == re.sub("Date: .*GMT", "", theirs)


def test_every_listed_difference_is_about_a_record_and_is_one() -> None:
    for row in DIFFERENCES:
        for name in row.names:
            theirs = recorded.record(row.file, name)["response"]
            assert (row.status, row.body or theirs["body"]) != (theirs["status"], theirs["body"]), name


def provider_status(document: dict) -> ProviderStatus:
    """The status that a recorded document says."""
    inventory = document["cluster"]["inventory"]
    available = inventory["available"]
    return ProviderStatus(
        leases=document["cluster"]["leases"],
        orders=document["bidengine"]["orders"],
        deployments=document["manifest"]["deployments"],
        active=tuple(map(amounts, inventory.get("active", []))),
        pending=tuple(map(amounts, inventory.get("pending", []))),
        nodes=tuple(
            NodeAmounts(node["name"], amounts(node["allocatable"]), amounts(node["available"]))
            for node in available["nodes"]
        ),
        storage_bytes={row["class"]: row["size"] for row in available["storage"]},
    )


def amounts(row: dict) -> Amounts:
    return Amounts(row["cpu"], row["gpu"], row["memory"], row["storage_ephemeral"], row.get("storage", {}))
