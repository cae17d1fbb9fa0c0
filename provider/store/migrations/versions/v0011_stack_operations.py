"""The operations that workers on other machines run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "stack_operations",
        sa.Column("stack", sa.String(64), primary_key=True),
        sa.Column("number", sa.String(32), nullable=False),
        sa.Column("term", sa.BigInteger, nullable=False),
        sa.Column("priority", sa.String(32), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("worker", sa.String(256), nullable=False),
        sa.Column("asked_at", sa.Float, nullable=False),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
