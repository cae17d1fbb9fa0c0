"""The document and the record of a matrix: honest about what was not run, stable, and not fooled by half a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.laws.killmatrix.cells import Cell, Outcome, judged
from tests.laws.killmatrix.events import event_name, in_order
from tests.laws.killmatrix.matrix import Record, all_cells
from tests.laws.killmatrix.slot import Reply, Trap
from tests.laws.killmatrix.table import document

EVENTS = {"create": ["prelude", "summary"]}
FIRST = Cell("create", "prelude", "worker")
SECOND = Cell("create", "summary", "plugin")


def _step(event: str, op: str, kind: str) -> dict[str, Any]:
    return {event: {"metadata": {"op": op, "type": kind, "urn": f"urn:pulumi:s::lease::{kind}::h7.localhost"}}}


def test_cells_that_were_not_run_are_said_to_be_not_run() -> None:
    text = document(EVENTS, {FIRST: Outcome("repaired", 1.4, 2)})
    assert "1 of 8 cells run, 0 failed." in text
    assert "| prelude | not run | not run | repaired, 2 s | not run |" in text
    assert "| summary | not run | not run | not run | not run |" in text


def test_a_failure_is_counted_and_its_reason_is_below_the_table() -> None:
    text = document(EVENTS, {SECOND: Outcome("FAILED", 3, 2, "Service web is missing\nand more")})
    assert "1 of 8 cells run, 1 failed." in text
    assert "* summary, plugin: Service web is missing and more" in text


def test_equal_outcomes_give_the_same_text_however_long_they_took_within_a_step() -> None:
    one, other = ({FIRST: Outcome("unharmed", seconds)} for seconds in (2.1, 4.9))
    assert document(EVENTS, one) == document(EVENTS, other)


def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "record"
    record = Record(path)
    record.begin(EVENTS)
    record.add(FIRST, Outcome("repaired", 1.0, 2, "said"))
    record.add(SECOND, Outcome("FAILED"))
    with path.open("a") as file:
        file.write('{"cell": {"operation": "crea')

    again = Record(path)

    assert again.events == EVENTS
    assert again.outcomes == {FIRST: Outcome("repaired", 1.0, 2, "said"), SECOND: Outcome("FAILED")}
    assert set(again.left()) == set(all_cells(EVENTS)) - {FIRST, SECOND}
    assert set(again.left(again=True)) == set(all_cells(EVENTS)) - {FIRST}


def test_what_follows_half_a_line_is_read(tmp_path: Path) -> None:
    path = tmp_path / "record"
    path.write_text('{"cell": {"operation": "crea')
    record = Record(path)
    record.begin(EVENTS)
    record.add(FIRST, Outcome("repaired"))
    assert set(Record(path).outcomes) == {FIRST}


@pytest.mark.parametrize(
    ("event", "name"),
    [
        ({"preludeEvent": {}}, "prelude"),
        ({"summaryEvent": {}}, "summary"),
        ({"cancelEvent": {}}, "cancel"),
        ({"diagnosticEvent": {"message": "a log line"}}, None),
        ({"progressEvent": {}}, None),
        (_step("resourcePreEvent", "create", "kubernetes:core/v1:Service"), "before create Service web"),
        (_step("resOutputsEvent", "same", "lessor:lease:Service"), "after same Service (part) web"),
        (_step("resOpFailedEvent", "delete", "pulumi:providers:kubernetes"), "failed delete provider web"),
    ],
)
def test_events_have_names(event: dict[str, Any], name: str | None) -> None:
    assert event_name(event, lambda text: text.replace("h7.localhost", "web")) == name


def test_names_are_listed_in_one_order_whatever_that_of_the_run_was() -> None:
    names = ["prelude", "before create A x", "after create A x", "before create B w", "summary", "cancel"]
    assert in_order(reversed(names)) == names


def test_a_trap_that_never_closed_says_so() -> None:
    trap = Trap("worker", "prelude", lambda _: "cancel")
    trap.seen.append("cancel")
    outcome = judged(trap, Reply(ok=True, said=(), at=1.0, restarts=0), [])
    assert outcome.effect == "no such event" and not outcome.good
