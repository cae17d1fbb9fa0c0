"""The tables of the newest schema. Their history is in `migrations/`; a test compares the two."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)  # fmt: skip

__all__ = [
    "capacity_log",
    "chain_cursors",
    "claims",
    "decision_inputs",
    "decisions",
    "directives",
    "earnings",
    "fees",
    "lease_money",
    "lease_states",
    "leases",
    "manifests",
    "metadata",
    "runs",
    "stack_notes",
    "stack_operations",
    "transactions",
    "versions",
]

metadata = MetaData()
_ADDRESS = 64
_DIGEST = 64
_NAME = 64
_KEY_ID = 16

chain_cursors = Table(
    "chain_cursors",
    metadata,
    Column("chain_id", String(64), primary_key=True),
    Column("height", BigInteger, nullable=False),
    Column("saved_at", Float, nullable=False),
)
"""The last height whose events were published, one row per chain."""

decision_inputs = Table(
    "decision_inputs",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("digest", LargeBinary(16), nullable=False, unique=True),
    Column("kind", String(16), nullable=False),
    Column("body", LargeBinary, nullable=False),
)
"""The inputs of decisions, each stored once: zlib over JSON. `digest`: the first half of its SHA-256, kind included."""

capacity_log = Table(
    "capacity_log",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("at", Float, nullable=False),
    Column("full", Boolean, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
"""The free capacity: a full entry each hour, changes after it (`provider.market.record.capacity_log`)."""

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
    Column("facts", Text, nullable=False),
    Column("spec_input", Integer, nullable=False),
    Column("record_input", Integer, nullable=False),
    Column("rules_input", Integer, nullable=False),
    Column("audits_input", Integer, nullable=False),
    Column("quote_input", Integer, nullable=True),
    Column("capacity", Integer, nullable=False),
    Index("decisions_by_dseq", "dseq"),
)
"""Every decision. `dseq` is text: an unsigned 64-bit number fits no integer column. `outcome`: the result of the bid.
`facts`: JSON about the order and the tenant, without the group. Inputs are removed after their decisions
(`provider.market.record.log`); a foreign key would search all decisions for each removed row.
"""

leases = Table(
    "leases",
    metadata,
    Column("namespace", String(_NAME), primary_key=True),
    Column("lease", String(256), nullable=False),
    Column("phase", String(64), nullable=False),
    Column("reason", Text, nullable=False),
    Column("since", Float, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("ended_at", Float, nullable=True),
)
"""The last known status of every lease; `ended_at` is set when it is closed."""

lease_states = Table(
    "lease_states",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("stack", String(_NAME), nullable=False),
    Column("at", Float, nullable=False),
    Column("phase", String(64), nullable=False),
    Column("reason", Text, nullable=False),
    Index("lease_states_by_stack", "stack", "id"),
)
"""Every change of the state of a lease, newest last."""

manifests = Table(
    "manifests",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("stack", String(_NAME), nullable=False),
    Column("owner", String(_ADDRESS), nullable=False),
    Column("accepted_at", Float, nullable=False),
    Column("last_at", Float, nullable=False),
    Column("times", Integer, nullable=False),
    Column("version", String(_DIGEST), nullable=False),
    Column("manifest_hash", String(_DIGEST), nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("services", Integer, nullable=False),
    Index("manifests_by_stack", "stack", "id"),
)
"""Every manifest that was accepted for a lease, without its contents. `version`: the hash on the chain;
`manifest_hash`: the one that runs name. The same manifest again counts in `times` and `last_at`.
"""

claims = Table(
    "claims",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("kind", String(16), nullable=False),
    Column("name", String(256), nullable=False),
    Column("port", String(16), nullable=False),
    Column("service", String(256), nullable=False),
    Column("stack", String(_NAME), nullable=False),
    Column("lease", String(256), nullable=False),
    Column("given_at", Float, nullable=False),
    Column("released_at", Float, nullable=True),
    Index("claims_by_stack", "stack", "id"),
    Index("claims_by_name", "name", "id"),
    Index("claims_by_end", "released_at"),
)
"""Which lease had a hostname or an address, and when. `port`: of an address, such as `80/TCP`; empty for a hostname."""

runs = Table(
    "runs",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("stack", String(_NAME), nullable=False),
    Column("operation", String(16), nullable=False),
    Column("reason", String(32), nullable=False),
    Column("spec_hash", String(_DIGEST), nullable=False),
    Column("manifest_hash", String(_DIGEST), nullable=False),
    Column("started_at", Float, nullable=False),
    Column("ended_at", Float, nullable=True),
    Column("outcome", String(16), nullable=False),
    Column("summary", Text, nullable=False),
    Column("cause", String(64), nullable=False),
    Column("error", Text, nullable=False),
    Column("key_id", String(_KEY_ID), nullable=False),
    Column("result", LargeBinary, nullable=False),
    Index("runs_by_stack", "stack", "id"),
)
"""Every operation of the engine, newest last. `result`: the complete result, masked, then sealed; empty
until the end.
"""

transactions = Table(
    "transactions",
    metadata,
    Column("hash", String(_DIGEST), primary_key=True),
    Column("account", String(160), nullable=False),
    Column("keys", Text, nullable=False),
    Column("settles", Text, nullable=False),
    Column("fee", String(40), nullable=False),
    Column("denom", String(128), nullable=False),
    Column("timeout_height", BigInteger, nullable=False),
    Column("sent_at", Float, nullable=False),
    Column("fate", String(16), nullable=False),
    Column("height", BigInteger, nullable=False),
    Index("transactions_by_time", "account", "sent_at"),
)
"""The transactions of the last week. `account`: chain id and address. `fee` is text: amounts have no upper limit."""

directives = Table(
    "standing_words",
    metadata,
    Column("lease", String(256), primary_key=True),
    Column("word", String(16), primary_key=True),
    Column("at", Float, nullable=False),
)
"""What the teardown brake holds and has released, and operators' directives about removals."""

versions = Table(
    "versions",
    metadata,
    Column("stack", String(_NAME), primary_key=True),
    Column("spec_hash", String(_DIGEST), primary_key=True),
    Column("manifest_hash", String(_DIGEST), nullable=False),
    Column("seen_at", Float, nullable=False),
    Column("key_id", String(_KEY_ID), nullable=False),
    Column("body", LargeBinary, nullable=False),
)
"""The LeaseSpecs that were applied or tried, sealed; removed when the lease is closed."""

stack_notes = Table(
    "stack_notes",
    metadata,
    Column("stack", String(_NAME), primary_key=True),
    Column("machine", String(_NAME), nullable=False),
    Column("sound", Boolean, nullable=False),
    Column("begun", Text, nullable=False),
)
"""What other machines have to know of the last operation on a stack (`stacks.common.notes`). `begun`: JSON of kinds and
names, no values.
"""

stack_operations = Table(
    "stack_operations",
    metadata,
    Column("stack", String(_NAME), primary_key=True),
    Column("number", String(32), nullable=False),
    Column("term", BigInteger, nullable=False),
    Column("priority", String(32), nullable=False),
    Column("state", String(16), nullable=False),
    Column("worker", String(256), nullable=False),
    Column("asked_at", Float, nullable=False),
    Column("key_id", String(_KEY_ID), nullable=False),
    Column("body", LargeBinary, nullable=False),
)
"""The operations that `lessor worker` processes run (`provider.workers.operations`). `body`: the task, then its result,
sealed.
"""

lease_money = Table(
    "lease_money",
    metadata,
    Column("lease", String(256), primary_key=True),
    Column("denom", String(128), nullable=False),
    Column("earned", Text, nullable=False),
    Column("seen_at", Float, nullable=False),
    Column("since", Float, nullable=False),
    Column("ended", Boolean, nullable=False),
    Column("rate", Text),
    Column("unpaid", Text),
)
"""The last known earnings of a lease, and its last withdrawal. Amounts are decimals as text; the rate and the unpaid
part are NULL in rows that are older than these columns.
"""

earnings = Table(
    "earnings",
    metadata,
    Column("day", String(10), primary_key=True),
    Column("lease", String(256), primary_key=True),
    Column("denom", String(128), primary_key=True),
    Column("amount", Text, nullable=False),
)
"""Earnings of a lease on a UTC day, in micro-units."""

fees = Table(
    "fees",
    metadata,
    Column("day", String(10), primary_key=True),
    Column("denom", String(128), primary_key=True),
    Column("amount", Text, nullable=False),
)
"""Fees of a UTC day, in micro-units, of transactions that are no longer in the journal."""
