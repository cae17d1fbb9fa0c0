"""Sent transactions: their fees count for a day, and one whose end is unknown is looked up after a restart."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "transactions",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("account", sa.String(160), nullable=False),
        sa.Column("keys", sa.Text, nullable=False),
        sa.Column("settles", sa.Text, nullable=False),
        sa.Column("fee", sa.String(40), nullable=False),
        sa.Column("denom", sa.String(128), nullable=False),
        sa.Column("timeout_height", sa.BigInteger, nullable=False),
        sa.Column("sent_at", sa.Float, nullable=False),
        sa.Column("fate", sa.String(16), nullable=False),
        sa.Column("height", sa.BigInteger, nullable=False),
    )
    op.create_index("transactions_by_time", "transactions", ["account", "sent_at"])
