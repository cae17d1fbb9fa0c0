"""Mutated input of every form: no crash, nothing internal in an answer, no secret in a log line."""

from __future__ import annotations

import pytest

from tests.hostile.fuzz import FORMS, fuzz


async def test_some_thousand_mutated_inputs_break_nothing() -> None:
    done = await fuzz(inputs=6_000, seed=1)
    assert done == dict.fromkeys(FORMS, 1_000)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(4))
async def test_a_million_mutated_inputs_break_nothing(seed: int) -> None:
    done = await fuzz(inputs=250_002, seed=seed + 100)
    assert sum(done.values()) == 250_002
