"""Decisions refer to the free capacity and to their inputs by number instead of containing them.

Older decisions are removed: their inputs have another form, and a decision without inputs explains nothing. No lease
and no bid depends on them.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_INPUTS = ("spec_input", "record_input", "rules_input", "audits_input")


def upgrade() -> None:
    op.drop_index("decisions_by_order", "decisions")
    op.drop_index("decisions_by_time", "decisions")
    op.drop_table("decisions")
    op.drop_table("decision_inputs")
    op.create_table(
        "decision_inputs",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("digest", sa.LargeBinary(16), nullable=False, unique=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "capacity_log",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("full", sa.Boolean, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    _decisions()


def _decisions() -> None:
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
        sa.Column("facts", sa.Text, nullable=False),
        *(sa.Column(name, sa.Integer, nullable=False) for name in _INPUTS),
        sa.Column("quote_input", sa.Integer, nullable=True),
        sa.Column("capacity", sa.Integer, nullable=False),
    )
    op.create_index("decisions_by_dseq", "decisions", ["dseq"])
