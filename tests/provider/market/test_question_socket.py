"""Questions to the market by its socket: what cannot be read is answered, and nothing else is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from lease.groups import GroupSpec
from provider.market.question_socket import answer
from provider.market.screening import Screening
from tests.provider.market.world import make_spec, running

pytestmark = pytest.mark.virtual_time
GROUP = TypeAdapter(GroupSpec).dump_python(make_spec(), mode="json")


def line(**request: object) -> bytes:
    return json.dumps({"groups": [GROUP], "owner": "akash1x", **request}).encode()


@pytest.mark.parametrize("notice", [{}, {"reclamation_ns": None}, {"reclamation_ns": 0}, {"reclamation_ns": 10**9}])
async def test_a_notice_is_a_number_or_none(tmp_path: Path, notice: dict[str, object]) -> None:
    async with running(tmp_path) as world:
        found = await answer(Screening(world.market), line(**notice))
    assert found["ok"] and found["groups"][0]["group"] == "westcoast"


@pytest.mark.parametrize(
    "request_",
    [
        *(line(reclamation_ns=notice) for notice in ("1000000000", 1.5, [], {})),
        *(line(groups=groups) for groups in (None, 7, [7], [{}], "x")),
        *(b"", b"[]", b"7", b"null", b"{", b"[" * 100_000, b"\xff"),
    ],
)
async def test_what_is_no_question_is_answered_so(tmp_path: Path, request_: bytes) -> None:
    async with running(tmp_path) as world:
        found = await answer(Screening(world.market), request_)
    assert found == {"ok": False, "text": "this provider does not know this request"}
