"""The tables as code reads them. Their history is in `migrations/`; a test compares the two."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)  # fmt: skip

__all__ = ["chain_cursors", "decision_inputs", "decisions", "metadata", "public_keys", "stack_updates"]

metadata = MetaData()
_ADDRESS = 64
_DIGEST = 64

chain_cursors = Table(
    "chain_cursors",
    metadata,
    Column("chain_id", String(64), primary_key=True),
    Column("height", BigInteger, nullable=False),
    Column("saved_at", Float, nullable=False),
)
"""The last height whose events were handed on, one row a chain."""

decision_inputs = Table(
    "decision_inputs",
    metadata,
    Column("digest", String(_DIGEST), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("body", LargeBinary, nullable=False),
)
"""What decisions were made from, once each: zlib over JSON, by SHA-256 of the JSON."""

decisions = Table(
    "decisions",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("owner", String(_ADDRESS), nullable=False),
    Column("dseq", String(20), nullable=False),
    Column("gseq", BigInteger, nullable=False),
    Column("oseq", BigInteger, nullable=False),
    Column("decided_at", Float, nullable=False),
    Column("verdict", String(16), nullable=False),
    Column("price", String(64), nullable=False),
    Column("denom", String(128), nullable=False),
    Column("reasons", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("order_input", String(_DIGEST), ForeignKey("decision_inputs.digest"), nullable=False),
    Column("record_input", String(_DIGEST), ForeignKey("decision_inputs.digest"), nullable=False),
    Column("snapshot_input", String(_DIGEST), ForeignKey("decision_inputs.digest"), nullable=False),
    Column("rules_input", String(_DIGEST), ForeignKey("decision_inputs.digest"), nullable=False),
    Column("audits_input", String(_DIGEST), ForeignKey("decision_inputs.digest"), nullable=False),
    Index("decisions_by_order", "owner", "dseq", "gseq", "oseq"),
    Index("decisions_by_time", "decided_at"),
)
"""Every decision. `dseq` is text: an unsigned 64-bit number fits no integer column. `outcome`: what became of the
bid.
"""

stack_updates = Table(
    "stack_updates",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("lease", String(256), nullable=False),
    Column("stack", String(64), nullable=False),
    Column("operation", String(16), nullable=False),
    Column("started_at", Float, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("ok", Boolean, nullable=False),
    Column("spec_hash", String(_DIGEST), nullable=False),
    Column("summary", Text, nullable=False),
    Column("changes", Text, nullable=False),
    Column("error", Text, nullable=False),
    Index("stack_updates_by_lease", "lease", "started_at"),
)
"""What every engine operation did, newest last; without outputs and without secrets."""

public_keys = Table(
    "public_keys",
    metadata,
    Column("address", String(_ADDRESS), primary_key=True),
    Column("key", LargeBinary, nullable=False),
)
"""Accounts' public keys, which never change once known."""
