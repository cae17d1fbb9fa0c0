"""Each entry point does a bounded amount of work for each hostile input of its form."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.corpus import EntryPoint, HostileInput, entry_points, hostile_inputs

_CASES = [(point, item) for point in entry_points() for item in hostile_inputs(point.form)]


@pytest.mark.parametrize(("point", "item"), _CASES, ids=[f"{point.name}: {item.name}" for point, item in _CASES])
async def test_a_hostile_input_causes_a_bounded_amount_of_work(
    point: EntryPoint, item: HostileInput, tmp_path: Path
) -> None:
    done = await point.run(item.data, tmp_path)
    assert not {name: count for name, count in done.items() if count > point.most.get(name, -1)}


def test_every_form_of_input_has_an_entry_point_and_every_entry_point_an_input() -> None:
    assert {point.form for point in entry_points()} == {item.form for item in hostile_inputs()}


def test_no_two_inputs_of_a_form_and_no_two_entry_points_share_a_name() -> None:
    inputs = [(item.form, item.name) for item in hostile_inputs()]
    points = [point.name for point in entry_points()]
    assert (len(set(inputs)), len(set(points))) == (len(inputs), len(points))
