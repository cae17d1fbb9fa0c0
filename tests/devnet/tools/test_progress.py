"""The progress of a long build, on a test clock."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from devnet.tools.progress import Meter, once_a_minute, progress_output
from devnet.tools.recipes import RECIPES
from tests.devnet.tools.family import RECIPE, builder, fake_go, first_on_path


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def meter(**estimates: float) -> tuple[Meter, Clock]:
    clock = Clock()
    made = Meter(clock)
    made.plan(estimates)
    return made, clock


def test_before_the_first_measurement_two_cores_are_assumed():
    made, _ = meter(one=120, two=240)
    made.begin("one", estimate=120)
    assert made.remaining == 180


def test_the_remaining_time_follows_the_measured_pace():
    made, clock = meter(one=120, two=240)
    made.begin("one", estimate=120)
    clock.now += 60
    made.use(60)
    assert made.pace == 1
    assert made.remaining == 300
    assert made.status() == "one: building for 1:00; this and 1 more may take about 5 min more"


def test_finished_recipes_correct_the_estimates_of_the_rest():
    """A machine whose cores do half as much in a CPU second, or a cache that has most already."""
    made, clock = meter(one=100, two=300)
    made.begin("one", estimate=100)
    clock.now += 100
    made.use(200)
    made.finish()
    made.begin("two", estimate=300)
    assert made.remaining == 300
    clock.now += 50
    made.use(100)
    assert made.remaining == 250


def test_a_recipe_beyond_its_estimate_still_has_remaining_time():
    made, clock = meter(one=100, two=200)
    made.begin("one", estimate=100)
    clock.now += 300
    made.use(300)
    assert made.remaining == 205
    made.finish()
    assert made.remaining == 600, "three times the estimate, as the first one took"


def test_a_recipe_that_another_process_built_does_not_count():
    made, _ = meter(one=100, two=200)
    made.drop("two")
    made.begin("one", estimate=100)
    assert made.remaining == 50
    assert made.status() == "one: building for 0:00; this may take a minute more"


@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.floats(0, 1e4), st.floats(0, 1e4)), min_size=1, max_size=8),
)
def test_every_course_of_a_build_gives_a_finite_remaining_time(course):
    made, clock = meter(**{f"r{at}": estimate for at, (estimate, _, _) in enumerate(course)})
    for at, (estimate, seconds, used) in enumerate(course):
        made.begin(f"r{at}", estimate=estimate)
        clock.now += seconds
        made.use(used)
        assert 0 <= made.remaining < float("inf")
        assert "\n" not in made.status()
        made.finish()
    assert made.remaining == 0


def test_without_a_terminal_there_is_one_line_a_minute():
    clock, said = Clock(), list[str]()
    live = once_a_minute(said.append, clock=clock)
    for second in range(301):
        clock.now = 1000.0 + second
        live(f"after {second} s")
    assert said == [f"after {minute * 60} s" for minute in range(1, 6)]


def test_without_a_terminal_long_lines_are_not_wrapped():
    console = Console(file=io.StringIO(), width=40)
    text = f"kubernetes: building; log /{'very/' * 30}long [not markup]"
    with progress_output(console) as told:
        told.line(text)
        told.live("not a minute yet")
    assert console.file.getvalue() == f"{text}\n"  # type: ignore[attr-defined]


def test_on_a_terminal_the_status_is_below_the_lines_that_stay():
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with progress_output(console) as told:
        told.line("etcd: building")
        told.live("etcd: building for 0:01 [sic]")
        told.line("etcd: built")
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())  # type: ignore[attr-defined]
    assert shown.index("etcd: building\n") < shown.index("etcd: built\n")
    assert "building for 0:01 [sic]" in shown


def test_a_build_prints_its_start_its_progress_and_its_end(tmp_path, monkeypatch):
    first_on_path(monkeypatch, tmp_path / "bin")
    monkeypatch.setattr("devnet.tools.build._PROGRESS_INTERVAL_S", 0.01)
    fake_go(tmp_path / "bin", told=tmp_path / "told", then="sleep 0.1")
    made, told = builder(tmp_path)
    made.ensure_all([RECIPE])
    first, *course, last = told
    assert re.fullmatch(r"hello: building, about 1 CPU seconds from nothing; log .+", first)
    assert set(course) == {"hello: building for 0:00; this may take a minute more"}
    assert re.fullmatch(r"hello: built in 0 s \(\d CPU seconds\)", last)


@pytest.mark.parametrize("name", [each.name for each in RECIPES])
def test_every_recipe_has_an_estimate_unless_it_only_copies(name):
    [chosen] = [each for each in RECIPES if each.name == name]
    assert (chosen.cpu_seconds > 0) == (name != "pulumi")
