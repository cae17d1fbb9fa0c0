"""Queries of certificates (chain.md §5): an owner and a serial select one; otherwise a list by state or by owner."""

from __future__ import annotations

import grpc
from akash.cert.v1 import query_pb2 as pb
from akash.cert.v1.types_pb2 import State

from devnet.chain.certificates import serial_of
from devnet.chain.errors import QueryPanicked, QueryRefused
from devnet.chain.keys import bech32_complaint, raw_address, valid_address
from devnet.chain.query.paging import Page, Row, page, states_of
from devnet.chain.query.view import Query
from devnet.chain.wire import Message

__all__ = ["certificates"]


def certificates(query: Query, request: Message) -> Message:
    """A serial without an owner is ignored; a serial that is not a number ends in a panic, as on a real node."""
    filters = request.filter
    states = states_of(State, filters.state)
    if filters.owner and not valid_address(filters.owner):
        text = f"decoding bech32 failed: {bech32_complaint(filters.owner)}"
        raise QueryRefused(grpc.StatusCode.INTERNAL, text)
    wanted = serial_of(filters.serial) if filters.owner and filters.serial else None
    if filters.owner and filters.serial and wanted is None:
        raise QueryPanicked("runtime error: invalid memory address or nil pointer dereference")
    rows = (
        Row(_key(owner, serial), value.state, (serial, value))
        for (owner, serial), value in query.state.items("certificate", (filters.owner,) if filters.owner else ())
    )
    found = page(rows, request, states, accept=lambda row: wanted is None or row.value[0] == wanted, by_state=True)
    return _response(found, total=wanted is None)


def _response(found: Page, *, total: bool) -> Message:
    shown = [pb.CertificateResponse(certificate=row.value[1], serial=str(row.value[0])) for row in found.rows]
    pagination = {"next_key": found.next_key, "total": len(shown)} if total or shown else {}
    return pb.QueryCertificatesResponse(certificates=shown, pagination=pagination)


def _key(owner: str, serial: int) -> bytes:
    return (raw_address(owner) or b"") + abs(serial).to_bytes((abs(serial).bit_length() + 7) // 8 or 1, "big")
