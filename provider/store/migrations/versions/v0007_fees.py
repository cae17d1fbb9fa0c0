"""Fees by day are kept longer than the transactions that paid them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "fees",
        sa.Column("day", sa.String(10), primary_key=True),
        sa.Column("denom", sa.String(128), primary_key=True),
        sa.Column("amount", sa.Text, nullable=False),
    )
