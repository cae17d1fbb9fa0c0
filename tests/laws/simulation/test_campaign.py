"""A campaign goes on where its file ends, and writes down what broke."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.laws.simulation.campaign import next_seed, play_block
from tests.laws.simulation.defects import DEFECTS


def test_a_campaign_goes_on_after_the_highest_block_of_its_file(tmp_path: Path) -> None:
    log = tmp_path / "seeds.log"
    assert next_seed(log) == 0
    log.write_bytes(b"seed 1014: broken\nseeds 25-49 of 25 steps at abc: 25 held\nseeds 0-24 of\n\xff\xfe")
    assert next_seed(log) == 50


def test_a_block_says_what_was_played_and_on_which_commit() -> None:
    (line,) = play_block(range(6, 8), at="abc1234")
    assert line.startswith("seeds 6-7 of 25 steps at abc1234: 2 held, 0 broken, ")


@pytest.mark.long
def test_a_broken_seed_is_in_the_file_with_the_steps_that_it_needs() -> None:
    defect = "promises are never released"
    for seed in range(40):
        *broken, block = play_block(range(seed, seed + 1), at="abc1234", defect=defect)
        if broken:
            assert broken[0].startswith(f"at abc1234, seed {seed}: ")
            assert f"! {DEFECTS[defect]}" in broken[0]
            assert "0 held, 1 broken" in block
            return
    raise AssertionError(f"{defect}: no seed noticed it")
