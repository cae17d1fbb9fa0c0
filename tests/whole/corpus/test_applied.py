"""Every valid SDL of the corpus on the devnet: it comes up, says nothing new when applied again, and leaves nothing.

`make test` runs a fixed sample; the rest is `long`. Documents begin before their tests do (see conftest.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.data import SDL
from tests.whole.corpus.documents import NEVER_BID, SAMPLE, NoRoom, all_nodes, leases_of, valid_names
from tests.whole.corpus.live import differences


@pytest.mark.devnet
@pytest.mark.xdist_group("corpus")  # what a process has begun goes on only while it runs tests of this loop
@pytest.mark.asyncio(loop_scope="session")
async def test_a_valid_sdl_comes_up_is_unchanged_when_applied_again_and_leaves_nothing(
    document: str, lives: Any, record_property: Callable[[str, object], None]
) -> None:
    record_property("corpus seconds", json.dumps(await lives.wait(document)))


def test_the_sample_and_the_exceptions_are_documents_of_the_corpus() -> None:
    assert {*SAMPLE, *NEVER_BID} <= set(valid_names())
    assert not set(SAMPLE) & set(NEVER_BID)


def test_every_document_finds_a_place_or_is_an_exception_that_is_still_needed() -> None:
    nodes, refused = all_nodes(), {}
    for number, name in enumerate(valid_names()):
        text = (SDL / f"{name}.yaml").read_bytes()
        try:
            assert leases_of(name, text, number=number, nodes=nodes, api_server="192.0.2.1:6443")
        except NoRoom as problem:
            refused[name] = str(problem)
    assert refused.keys() == NEVER_BID.keys()
    assert all(reason in refused[name] for name, reason in NEVER_BID.items())


@pytest.mark.parametrize(
    ("wanted", "stored", "found"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, []),
        ({"a": [1, 2]}, {"a": [1]}, [".a: 1 entries instead of 2"]),
        ({"a": {"b": "x"}}, {"a": {"b": "y"}}, [".a.b: 'y' instead of 'x'"]),
        ({"a": {"b": "x"}}, {}, [".a: None instead of an object"]),
        ({"a": False}, {}, []),
        ({"a": True}, {}, [".a: None instead of True"]),
        ({"x": {"resources": {"cpu": "1000m"}}}, {"x": {"resources": {"cpu": "1"}}}, []),
        (
            {"x": {"resources": {"cpu": "1000m"}}},
            {"x": {"resources": {"cpu": "2"}}},
            [".x.resources.cpu: '2' instead of '1000m'"],
        ),
        ({"name": "1000m"}, {"name": "1"}, [".name: '1' instead of '1000m'"]),
    ],
)
def test_a_field_that_the_server_does_not_hold_as_sent_is_a_difference(
    wanted: Any, stored: Any, found: list[str]
) -> None:
    assert differences(wanted, stored) == found
