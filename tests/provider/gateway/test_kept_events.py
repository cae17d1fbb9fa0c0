"""The events of a lease for a week, although the API server forgets them after an hour (field problem K7)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from wsproto.frame_protocol import Opcode

from lease.ids import namespace_name
from provider.gateway.streams.kept_events import KeptEvents
from provider.gateway.streams.lease_events import event_json
from provider.protocols.cluster import EVENT, NAMESPACE, POD, WatchEvent
from tests.provider.gateway.accounts import NOW
from tests.provider.gateway.manifests import TENANT, lease
from tests.provider.gateway.sockets import opened
from tests.provider.gateway.world import new_world, place

SPACE = namespace_name(lease())
WEEK_S = 7 * 86400
PATH = "/lease/42/1/1/kubeevents"


def event(name: str, *, at: float = NOW, note: str = "", count: int = 1, space: str = SPACE) -> WatchEvent:
    from datetime import UTC, datetime

    text = datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
    return WatchEvent(
        "ADDED",
        {
            "metadata": {"name": name, "namespace": space, "creationTimestamp": text},
            "type": "Warning",
            "reason": "Evicted",
            "note": note or name,
            "series": {"count": count, "lastObservedTime": text},
            "regarding": {"kind": "Pod", "namespace": space, "name": "web-1"},
        },
    )


def killed(times: int) -> WatchEvent:
    """A pod whose container was killed for its memory so often."""
    ended = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-11-27T23:04:38Z"}
    status = {"containerStatuses": [{"name": "web", "restartCount": times, "lastState": {"terminated": ended}}]}
    meta = {"name": "web-1", "namespace": SPACE}
    return WatchEvent("MODIFIED", {"kind": "Pod", "metadata": meta, "status": status})


@pytest.fixture
def clock() -> Iterator[list[float]]:
    yield [float(NOW)]


@pytest.fixture
def kept(tmp_path: Path, clock: list[float]) -> KeptEvents:
    return KeptEvents(tmp_path / "events.jsonl", lambda: clock[0])


def notes(kept: KeptEvents, space: str = SPACE) -> list[str]:
    return [each["note"] for each in kept.of(space)]


def test_an_event_stays_for_a_week_although_the_api_server_deletes_it(kept: KeptEvents, clock: list[float]) -> None:
    kept.note(EVENT, event("a"))
    kept.note(EVENT, WatchEvent("DELETED", event("a").object))
    clock[0] += WEEK_S
    assert notes(kept) == ["a"]
    clock[0] += 1
    assert notes(kept) == []


def test_a_container_that_is_killed_again_and_again_is_one_event_with_its_count(kept: KeptEvents) -> None:
    for times in (1, 2, 3):
        kept.note(POD, killed(times))
    (found,) = kept.of(SPACE)
    assert (found["reason"], found["count"]) == ("OOMKilled", 3)
    assert found["note"] == "container web ended with exit code 137 and was started again; restarts so far: 3"


def test_the_newest_report_of_an_event_replaces_the_others_and_the_oldest_comes_first(kept: KeptEvents) -> None:
    kept.note(EVENT, event("b", at=NOW - 10))
    kept.note(EVENT, event("a", at=NOW - 60))
    kept.note(EVENT, event("b", at=NOW, note="again", count=2))
    assert notes(kept) == ["a", "again"]


def test_a_restart_keeps_the_record_and_a_damaged_line_costs_that_line(kept: KeptEvents, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    kept.note(EVENT, event("a"))
    with file.open("ab") as opened_file:
        opened_file.write(b"no json\n[]\n")
    kept.note(EVENT, event("b"))
    again = KeptEvents(file, lambda: float(NOW))
    assert notes(again) == ["a", "b"]
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(file.read_bytes().splitlines()) == 2


def test_a_lease_that_is_gone_leaves_nothing_in_the_record(kept: KeptEvents, tmp_path: Path) -> None:
    kept.note(EVENT, event("a"))
    kept.note(NAMESPACE, WatchEvent("DELETED", {"metadata": {"name": SPACE}}))
    assert notes(kept) == []
    assert (tmp_path / "events.jsonl").read_bytes() == b""


def test_the_record_is_bounded_for_a_lease_and_for_the_file(kept: KeptEvents, tmp_path: Path) -> None:
    for number in range(1000):
        kept.note(EVENT, event(f"event {number}", at=NOW + number))
    assert len(kept.of(SPACE)) == 200
    assert notes(kept)[-1] == "event 999"
    assert len((tmp_path / "events.jsonl").read_bytes().splitlines()) <= 3 * 200 + 1


def test_events_of_the_clusters_own_namespaces_are_not_kept(kept: KeptEvents) -> None:
    kept.note(EVENT, event("a", space="kube-system"))
    assert notes(kept, "kube-system") == []


def test_a_file_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    kept = KeptEvents(tmp_path / "no-such-folder" / "events.jsonl", lambda: float(NOW))
    kept.note(EVENT, event("a"))
    assert notes(kept) == ["a"]


@pytest.mark.parametrize("follow", ["false", "true"])
async def test_a_stream_begins_with_what_the_api_server_has_forgotten(
    tmp_path: Path, kept: KeptEvents, follow: str
) -> None:
    world = new_world(tmp_path)
    world.kept_events = kept
    world.clock.set(NOW)
    world.chain.public_keys[TENANT.address] = TENANT.public
    place(world.cluster, NAMESPACE, SPACE)
    kept.note(EVENT, event("forgotten", at=NOW - 86400))
    kept.note(EVENT, event("known"))
    world.cluster.put({"apiVersion": EVENT.api_version, "kind": "Event", **event("known").object})
    async with world.running(), opened(world, f"{PATH}?follow={follow}", TENANT.token()) as client:
        found: list[Any] = []
        while len(found) < 2:
            frame = await client.frame()
            assert frame is not None
            if frame.opcode is Opcode.TEXT:
                found.append(json.loads(str(frame.payload))["note"])
    assert found == ["forgotten", "known"]
    assert b'"count"' not in event_json(kept.of(SPACE)[0])
