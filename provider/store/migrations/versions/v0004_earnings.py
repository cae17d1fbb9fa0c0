"""Earnings of each lease by day, and the last known total of each lease."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lease_money",
        sa.Column("lease", sa.String(256), primary_key=True),
        sa.Column("denom", sa.String(128), nullable=False),
        sa.Column("earned", sa.Text, nullable=False),
        sa.Column("seen_at", sa.Float, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.Column("ended", sa.Boolean, nullable=False),
    )
    op.create_table(
        "earnings",
        sa.Column("day", sa.String(10), primary_key=True),
        sa.Column("lease", sa.String(256), primary_key=True),
        sa.Column("denom", sa.String(128), primary_key=True),
        sa.Column("amount", sa.Text, nullable=False),
    )
