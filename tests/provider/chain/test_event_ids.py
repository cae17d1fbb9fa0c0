"""Ids in events, as far as a query could carry them."""

from __future__ import annotations

import pytest

from provider.chain import events
from provider.protocols.chain import Event
from tests.provider.chain.world import order

LEASE = order(7).bid_by("akash1p")


@pytest.mark.parametrize(
    ("name", "value"), [("dseq", str(2**64)), ("gseq", 2**32), ("oseq", 10**19), ("oseq", -1), ("dseq", "1.0")]
)
def test_an_id_beyond_the_range_of_its_protobuf_field_is_none(name: str, value: object) -> None:
    """A query for it would raise: protobuf has no such number."""
    fields = {"owner": LEASE.owner, "dseq": "7", "gseq": 1, "oseq": 1, "provider": LEASE.provider}
    assert events.lease_id(Event(events.LEASE_CREATED, {"id": fields})) == LEASE
    assert events.lease_id(Event(events.LEASE_CREATED, {"id": {**fields, name: value}})) is None
