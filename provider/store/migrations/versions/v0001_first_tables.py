"""The first tables: chain cursors, decisions with their inputs, stack updates, public keys."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_INPUTS = ("order_input", "record_input", "snapshot_input", "rules_input", "audits_input")


def upgrade() -> None:
    op.create_table(
        "chain_cursors",
        sa.Column("chain_id", sa.String(64), primary_key=True),
        sa.Column("height", sa.BigInteger, nullable=False),
        sa.Column("saved_at", sa.Float, nullable=False),
    )
    op.create_table(
        "public_keys",
        sa.Column("address", sa.String(64), primary_key=True),
        sa.Column("key", sa.LargeBinary, nullable=False),
    )
    _decisions()
    _updates()


def _decisions() -> None:
    op.create_table(
        "decision_inputs",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "decisions",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("dseq", sa.String(20), nullable=False),
        sa.Column("gseq", sa.BigInteger, nullable=False),
        sa.Column("oseq", sa.BigInteger, nullable=False),
        sa.Column("decided_at", sa.Float, nullable=False),
        sa.Column("verdict", sa.String(16), nullable=False),
        sa.Column("price", sa.String(64), nullable=False),
        sa.Column("denom", sa.String(128), nullable=False),
        sa.Column("reasons", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        *(sa.Column(name, sa.String(64), sa.ForeignKey("decision_inputs.digest"), nullable=False) for name in _INPUTS),
    )
    op.create_index("decisions_by_order", "decisions", ["owner", "dseq", "gseq", "oseq"])
    op.create_index("decisions_by_time", "decisions", ["decided_at"])


def _updates() -> None:
    op.create_table(
        "stack_updates",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("lease", sa.String(256), nullable=False),
        sa.Column("stack", sa.String(64), nullable=False),
        sa.Column("operation", sa.String(16), nullable=False),
        sa.Column("started_at", sa.Float, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("ok", sa.Boolean, nullable=False),
        sa.Column("spec_hash", sa.String(64), nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("changes", sa.Text, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
    )
    op.create_index("stack_updates_by_lease", "stack_updates", ["lease", "started_at"])
